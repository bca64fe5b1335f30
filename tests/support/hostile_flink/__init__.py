"""Flink clusters that lie, a daemon that looks after them, and what is judged.

Every cluster has a healthy job that is never lied about, and jobs beside it that are: value by value, behaviour by
behaviour. See :mod:`hostile_flink.lies` for the catalogue, and :mod:`hostile_flink.judging` for the judgements.
"""
