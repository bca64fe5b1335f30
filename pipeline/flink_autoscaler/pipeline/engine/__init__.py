"""How the jobs of a pass are read and evaluated: in the process of the daemon, or in tasks that others run."""
