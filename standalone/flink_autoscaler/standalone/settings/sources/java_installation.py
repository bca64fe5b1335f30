"""The configuration directory of a Flink installation, as the Java autoscaler reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from flink_autoscaler.standalone.settings.sources import yaml_file
from flink_autoscaler.standalone.settings.sources.entry import Layer, Value, failed
from flink_autoscaler.standalone.settings.sources.text_file import FileUnreadableError, read_text

DIRECTORY_VARIABLE = "FLINK_CONF_DIR"
LEGACY_FILE = "flink-conf.yaml"
FILE = "config.yaml"
_JAVA_BLANKS = "".join(map(chr, range(0x21)))
_JAVA_LINE_END = re.compile(r"\r\n|\r|\n")


def read(environment: Mapping[str, str]) -> Layer:
    """Read the directory that ``FLINK_CONF_DIR`` names; nothing when it is not set.

    Where both files are there only ``flink-conf.yaml`` counts, as in Flink 1.18 to 1.20. A directory that is missing
    or has neither is a problem.
    """
    if DIRECTORY_VARIABLE not in environment:
        return Layer()
    text = environment[DIRECTORY_VARIABLE]
    directory = Path(text)
    if not text or not directory.is_dir():
        return failed(f"environment variable {DIRECTORY_VARIABLE}: there is no directory '{text}'")
    if (directory / LEGACY_FILE).is_file():
        return _read_legacy(directory)
    if (directory / FILE).is_file():
        return yaml_file.read(directory / FILE)
    return failed(f"environment variable {DIRECTORY_VARIABLE}: {text} has neither {FILE} nor {LEGACY_FILE}")


def _read_legacy(directory: Path) -> Layer:
    file = directory / LEGACY_FILE
    try:
        layer = parse_legacy(read_text(file), str(file))
    except FileUnreadableError as error:
        return failed(str(error))
    if (directory / FILE).exists():
        ignored = f"{directory / FILE} is ignored because {LEGACY_FILE} lies beside it"
        return Layer(layer.values, layer.problems, (ignored, *layer.warnings))
    return layer


def parse_legacy(text: str, name: str) -> Layer:
    """Read lines ``key: value``. ``#`` starts a comment anywhere, quotes are part of a value, the last line wins.

    Source: ``GlobalConfiguration.loadLegacyYAMLResource`` of Flink 1.20. Lines that are not pairs are skipped there
    with a warning, so they are here.
    """
    values: dict[str, Value] = {}
    warnings: list[str] = []
    for number, line in enumerate(_JAVA_LINE_END.split(text), start=1):
        content = line.partition("#")[0].strip(_JAVA_BLANKS)
        key, _, value = (part.strip(_JAVA_BLANKS) for part in content.partition(": "))
        if key and value:
            values[key] = Value(value, f"{name} line {number}")
        elif content:
            warnings.append(f"{name} line {number} is skipped: expected 'key: value', with a blank after the colon")
    return Layer(values, warnings=tuple(warnings))
