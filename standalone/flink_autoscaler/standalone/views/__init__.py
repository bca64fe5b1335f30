"""What people and programs see of jobs, clusters, passes, events and commands: read models, each made in one place."""
