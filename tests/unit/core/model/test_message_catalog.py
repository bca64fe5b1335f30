"""The catalog of sentences: each as it reads, and that a reason renders its own when somebody reads it."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from flink_autoscaler.core.model.events import NamedFigures, Reason
from flink_autoscaler.core.model.message_catalog import ReasonCode, Word, render_reason

SENTENCES = Path(__file__).parents[3] / "fixtures" / "reasons.txt"


def sample_values(template: str) -> dict[str, Word]:
    """Return a number for each name with a format, and the name itself for each other one."""
    formats = dict(re.findall(r"\{(\w+):?([^}]*)\}", template))
    values: dict[str, Word] = dict(formats)
    for name, spec in formats.items():
        values[name] = (0.25 if "percent" in spec else 12.5) if spec else f"<{name}>"
    return values


def sentences() -> list[str]:
    """Return every sentence with all its parts, then without those that may be missing."""
    lines = []
    for code in ReasonCode:
        needed = sample_values(re.sub(r"\[[^\]]*\]", "", code.template))
        others = "".join(part.partition("|")[2] for part in re.findall(r"\[([^\]]*)\]", code.template))
        for values in (sample_values(code.template), {**needed, **sample_values(others)}):
            line = f"{code.value}: {render_reason(code.value, values)}"
            if line not in lines:
                lines.append(line)
    return lines


def test_every_sentence_reads_as_in_the_fixture() -> None:
    assert sentences() == SENTENCES.read_text(encoding="utf-8").splitlines()


def test_codes_are_their_names() -> None:
    assert {code.name: code.value for code in ReasonCode} == {code.name: code.name for code in ReasonCode}


def test_a_reason_renders_its_sentence_from_figures_and_words() -> None:
    figures = NamedFigures(("failed", "limit"), (8.0, 7.0))

    reason = Reason.of(ReasonCode.QUARANTINED, "map", figures, cause="crash loop [{1}]")

    assert reason.text == "parallelism 8 failed (crash loop [{1}]); the maximum is 7 until the cluster changes"
    assert (type(reason.code), reason.code) == (str, "QUARANTINED")
    assert reason == Reason("QUARANTINED", reason.text, "map")


@pytest.mark.parametrize(
    "reason",
    [
        pytest.param(Reason("SIZED", "as it was stored"), id="a stored sentence"),
        pytest.param(Reason.of(ReasonCode.FLOOR, floor=3), id="a code of the catalog"),
        pytest.param(Reason.of(ReasonCode.FLOOR, floor=3).attributed_to("varga"), id="with who gives it"),
        pytest.param(Reason("MINE", "of a plug-in").attributed_to("mine"), id="a plug-in's with its name"),
    ],
)
def test_a_reason_travels_with_its_sentence(reason: Reason) -> None:
    assert pickle.loads(pickle.dumps(reason)) == reason


def test_who_gives_a_reason_stands_in_front_of_its_sentence() -> None:
    assert Reason.of(ReasonCode.NO_OPINION).attributed_to("slo").text == "slo: the policy has no recommendation"
