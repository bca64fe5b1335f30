"""Large files from the package index that pip is configured for, in a way that can be interrupted.

Standard library only: the set-up uses it before anything is installed.
"""
