"""Texts of anybody as values of options: reading them takes time in proportion to their length, and fails one way."""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.vertex_patterns import Named, matches, parse_patterns, parse_vertex_bounds
from flink_autoscaler.core.options.calendar import parse_period
from flink_autoscaler.core.options.checks import unreadable_options, validate
from flink_autoscaler.core.options.cron import CronExpression
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import Option, ValueParseError
from flink_autoscaler.core.options.policies import Select, parse_rate_limits
from flink_autoscaler.core.options.schedule_plans import parse_plans
from testkit.builders.core import a_vertex

OPTIONS = [*AutoscalerOptions.all_options(), *FlinkOptions.all_options()]
PARSERS: dict[str, Callable[[str], Any]] = {
    **{
        name: getattr(syntax, f"parse_{name}")
        for name in ("bool", "int", "double", "float32", "duration", "time", "memory", "list", "map")
    },
    "enum": lambda text: syntax.parse_enum(text, Select),
    "patterns": parse_patterns,
    "vertex bounds": parse_vertex_bounds,
    "plans": parse_plans,
    "rate limits": parse_rate_limits,
    "excluded period": parse_period,
    "cron": CronExpression.parse,
    "dates": AutoscalerOptions.forecast_exclude.parse,
    "time zone": AutoscalerOptions.forecast_timezone.parse,
    "pause": AutoscalerOptions.rollback_pause.parse,
}
PIECES = [
    *("1", "0", "9", ".", "1.", "1e", "-", "+", " ", "\t", "\n", "a", "A1", "[", "[]", "{", "'", "''", '"', '""', "\\"),
    *("a;", ";", "a,", ",", ":", "a:b,", "'a':", "1s", "1 s ", "1h 1", "- a\n", "- '\n", "-\n", "*", "?", "*a", "[!a"),
    *("=1..2;", "a=..;", "..", "1-", "1/", "1,", "&&", "mon-fri ", "days=mon,", "from=01:00;", "Pods 1 / 1 s,", "L-"),
    *("é", "٣", "\u2028", "\0", "\ud800", "😀", "%s", "(", "(a+", "NaN", "Infinity", "0 0 0 ? * *;", "true", "#"),
]  # fmt: skip
ENDS = ["x", "'"]
LENGTHS = (2_000, syntax.LONGEST)
SECONDS_PER_CHARACTER = 20e-6
"""A second and a third for the longest value, ten times and more what any takes on a busy machine."""


def hostile(length: int) -> list[str]:
    texts = (piece * (length // len(piece)) + end for piece in PIECES for end in ENDS)
    return [*texts, "[" + "a," * (length // 2) + "]", "{" + "a: b, " * (length // 6) + "}", "1" + " " * length + "x"]


def seconds(call: Callable[[], object], limit: float) -> float:
    """Return the processor time of a call; one above the limit is tried again: garbage may be collected meanwhile."""
    took = math.inf
    for _ in range(3):
        begin = time.thread_time()
        with suppress(ValueError):
            call()
        took = min(took, time.thread_time() - begin)
        if took < limit:
            break
    return took


@pytest.mark.parametrize("name", PARSERS)
def test_reading_takes_time_in_proportion_to_the_length(name: str) -> None:
    for length in LENGTHS:
        limit = 0.05 + length * SECONDS_PER_CHARACTER
        for text in hostile(length):
            assert seconds(partial(PARSERS[name], text), limit) < limit, (text[:20], len(text))


def any_matches(vertex: Named, patterns: tuple[str, ...]) -> bool:
    return any(matches(vertex, pattern) for pattern in patterns)


@pytest.mark.parametrize("length", LENGTHS)
def test_matching_takes_time_in_proportion_to_the_length(length: int) -> None:
    vertex = replace(a_vertex(), name="a" * 200)
    for text in hostile(length):
        try:
            patterns = parse_patterns(text)
        except ValueError:
            continue
        limit = 0.05 + length * SECONDS_PER_CHARACTER
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            took = seconds(partial(any_matches, vertex, patterns), limit)

        assert took < limit, text[:20]


TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(alphabet=st.characters(blacklist_categories=()), max_size=30),
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.from_regex(re.compile(r"[-+]?[0-9.eE]{1,400}[dDfFs ]?"), fullmatch=True),
)


@given(text=TEXTS)
def test_every_option_reads_any_text_or_says_that_it_cannot(text: str) -> None:
    refused = {}
    for option in OPTIONS:
        try:
            option.read({option.key: text})
        except ConfigError as error:
            refused[option.key] = str(error)

    assert all(key in message for key, message in refused.items())


@given(texts=st.dictionaries(st.sampled_from(AutoscalerOptions.all_options()), TEXTS, max_size=4))
def test_checks_of_any_texts_end_with_a_result(texts: dict[Option[Any], str]) -> None:
    options = AutoscalerOptions(
        {**{option.key: text for option, text in texts.items()}, "job.autoscaler.enabled": "true"}
    )

    errors = unreadable_options(options)
    try:
        problem = validate(options)
    except ValueParseError:
        problem = "a switch"

    assert {error.key for error in errors} <= {option.key for option in texts} | {"job.autoscaler.enabled"}
    assert problem is None or problem


@pytest.mark.parametrize("option", [AutoscalerOptions.utilization_target, AutoscalerOptions.vertex_exclude_ids])
def test_a_value_that_is_too_long_is_refused_with_its_key_and_beginning(option: Option[Any]) -> None:
    text = "7" * (syntax.LONGEST + 1)

    with pytest.raises(ValueParseError) as caught:
        option.read({option.key: text})

    assert option.key in str(caught.value)
    assert f"at most {syntax.LONGEST} characters" in str(caught.value)
    assert "77... (65537 characters)" in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("key", "text"),
    [
        pytest.param("job.autoscaler.excluded.periods", "0 0 " + "1" * 5000 + " ? * *", id="cron"),
        pytest.param("job.autoscaler.vertex.min-parallelism", "1" * 5000, id="whole number"),
        pytest.param("job.autoscaler.quota.memory", "1" * 5000 + "g", id="memory"),
        pytest.param("job.autoscaler.slo.lag", "1" * 5000 + " s", id="duration"),
        pytest.param("job.autoscaler.varga.scale-up.policies", "Pods " + "1" * 5000 + " / 1 s", id="rate limit"),
    ],
)
def test_thousands_of_digits_are_refused_as_any_other_value(key: str, text: str) -> None:
    options = AutoscalerOptions({key: text, "job.autoscaler.enabled": "true", "job.autoscaler.policy": "varga"})

    problems = [str(error) for error in unreadable_options(options)] or [validate(options) or ""]

    assert len(problems) == 1
    assert key in problems[0]
    assert "limit (4300" not in problems[0]
    assert len(problems[0]) < 600


def test_a_number_with_thousands_of_zeros_before_it_is_that_number() -> None:
    assert AutoscalerOptions({"job.autoscaler.vertex.min-parallelism": "0" * 5000 + "7"}).min_parallelism == 7
    assert syntax.parse_memory("0" * 5000 + "7") == 7


@pytest.mark.parametrize(("text", "expected"), [("1e300", float("inf")), ("-1e300", float("-inf"))])
def test_what_has_no_place_in_32_bits_is_infinite(text: str, expected: float) -> None:
    assert syntax.parse_float32(text) == expected
