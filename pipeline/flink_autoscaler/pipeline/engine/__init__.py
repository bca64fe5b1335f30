"""Engines: they read and evaluate the jobs of a pass, in the process of the daemon or in tasks that others run."""
