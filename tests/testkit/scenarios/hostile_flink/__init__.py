"""Flink clusters that lie, a daemon that manages them, and what is judged.

Every cluster has a healthy job that is never lied about, and jobs beside it that are: value by value, behaviour by
behaviour. The module ``lies`` has the catalogue, ``judging`` the judgements.
"""
