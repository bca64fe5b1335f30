"""``make setup`` and its like: ``.venv``, the project with an extra, and Flink's jars, side by side.

Standard library only, since it runs before anything is installed. Decision 16 says why it is as it is.
"""
