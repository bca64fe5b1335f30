"""The daemon and its command line. Importing this package imports nothing else, so that ``--help`` is quick."""
