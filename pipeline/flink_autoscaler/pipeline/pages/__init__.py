"""Building blocks of pages for people, those of a daemon and those in files: templates, words, style and drawings."""
