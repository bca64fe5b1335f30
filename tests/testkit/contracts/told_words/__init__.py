"""Finds the words that the sources tell people: codes of reasons, kinds of events, findings about readiness.

A word is what reaches the constructor of such a value: directly, by a constant, or by a parameter of a function or a
field of a class on the way. What cannot be followed is returned, too, so that no word gets away unseen.
"""

from testkit.contracts.told_words.following import FoundWords, find_words

__all__ = ["FoundWords", "find_words"]
