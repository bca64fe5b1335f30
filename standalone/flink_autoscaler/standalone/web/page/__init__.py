"""The page of a daemon: rendered here, kept up to date by a small script over the stream of news."""
