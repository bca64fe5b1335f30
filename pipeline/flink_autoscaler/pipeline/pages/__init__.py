"""What pages for people are made of, those of a daemon and those in files: templates, words, style and drawings."""
