"""``glossary``: every word that is told can be asked for."""

from __future__ import annotations

import json
import os
import subprocess

from flink_autoscaler.core.model.message_catalog import catalog_sections
from testkit.builders.forked_command import run_command


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command(["glossary", *arguments], os.environ)


def test_a_word_is_told_with_what_it_means_and_what_to_do() -> None:
    told = call("does-not-pay")

    assert told.returncode == 0
    assert told.stdout.startswith("DOES_NOT_PAY (reason)\n    The slots that a scale-down saves are worth less")
    assert "scale-down.economics.factor" in told.stdout
    assert max(map(len, told.stdout.splitlines())) <= 110


def test_all_words_are_told_as_json() -> None:
    words = [meaning.term for chapter in catalog_sections() for meaning in chapter.entries]

    told = call("--json", *sorted(set(words)))

    assert told.returncode == 0
    assert sorted({each["term"] for each in json.loads(told.stdout)["entries"]}) == sorted(set(words))


def test_an_unknown_word_is_refused_with_the_nearest() -> None:
    told = call("RescaleRefusd", "probation")

    assert told.returncode == 2
    assert told.stderr == "error: nothing is told by the word 'RescaleRefusd'; did you mean 'RescaleRefused'?\n"
    assert told.stdout.startswith("probation (phase of a job)")
