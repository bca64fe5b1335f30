"""Leadership, and what a daemon may do without it or without its database."""
