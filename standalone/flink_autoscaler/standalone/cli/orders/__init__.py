"""Orders to a running daemon: the commands, what they are given with, and the book they write to."""
