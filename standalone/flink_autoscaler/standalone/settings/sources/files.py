"""Configuration files: YAML, and the directory of a Flink installation as the Java autoscaler reads it.

A YAML file is composed into nodes and never constructed into objects. So ``OFF``, ``1e3`` or ``12:30`` stay what was
written instead of becoming what YAML 1.1 makes of them, and tags cannot do anything. Nested maps become dotted keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from flink_autoscaler.core.model.syntax import format_list
from flink_autoscaler.core.options.policies import ScheduleOptions
from flink_autoscaler.core.options.schedule_plans import format_plans
from flink_autoscaler.standalone.settings.sources.layer import (
    FileUnreadableError,
    Layer,
    Value,
    failed_layer,
    read_text,
)

DIRECTORY_VARIABLE = "FLINK_CONF_DIR"
LEGACY_FILE = "flink-conf.yaml"
FILE = "config.yaml"
_JAVA_BLANKS = "".join(map(chr, range(0x21)))
_JAVA_LINE_END = re.compile(r"\r\n|\r|\n")
_MAX_NODES = 20_000
_MAX_DEPTH = 40
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""That of libyaml where PyYAML has it: fifty times as fast."""

_TOO_LARGE = f"more than {_MAX_NODES} values or {_MAX_DEPTH} levels"
_TOO_DEEP = "exceeded maximum nesting depth"
"""What libyaml 0.2.6 says when its scanner, which reads ahead, meets a thousand levels."""

_TAG = "tag:yaml.org,2002:"
_NULL = _TAG + "null"
_SCALARS = {_TAG + name for name in ("str", "int", "float", "bool", "timestamp", "value", "merge")}


class _InvalidError(Exception):
    """The document is not a configuration; the message says where and why."""


def read_yaml(file: Path) -> Layer:
    """Read one file. A duplicate key, a syntax error or anything else wrong is a problem that names its place."""
    try:
        return parse_yaml(read_text(file), str(file))
    except FileUnreadableError as error:
        return failed_layer(error)


def parse_yaml(text: str, name: str) -> Layer:
    """Read the text of a file.

    Args:
        text: One YAML document, or nothing but comments.
        name: Name of the file for origins and problems.
    """
    flattening = _Flattener(name)
    try:
        _check_size(text, name)
        root = yaml.compose(text, Loader=_LOADER)
        if root is not None and not _is_null(root):
            if not isinstance(root, yaml.MappingNode):
                raise flattening.error_at(root, "expected a mapping of keys to values at the top level")
            flattening.add_mapping(root, "", 0)
    except _InvalidError as error:
        return failed_layer(error)
    except yaml.YAMLError as error:
        return failed_layer(_syntax_error(error, text, name))
    except (ValueError, OverflowError):  # of PyYAML's own scanner, which looks at no escape before it converts it
        return failed_layer(f"{name}: an escape such as \\x, \\u or \\U in double quotes is no character")
    return Layer(flattening.values, tuple(flattening.problems))


def _check_size(text: str, name: str) -> None:
    """Stop before a document is composed that has too many values, or is nested too deeply for a recursion."""
    nodes = depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        nodes += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if nodes > 2 * _MAX_NODES or depth > _MAX_DEPTH:
            line = event.start_mark.line + 1 if event.start_mark else 0
            raise _InvalidError(f"{name} line {line}: {_TOO_LARGE}")


def _syntax_error(error: yaml.YAMLError, text: str, name: str) -> str:
    """Say where and what, without the line itself: it may hold a secret."""
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark or error.context_mark):
        if error.problem == _TOO_DEEP:
            return f"{name} line {mark.line + 1}: {_TOO_LARGE}"
        return f"{name} line {mark.line + 1} column {mark.column + 1}: {error.problem or error.context}"
    before = _text_before(text, getattr(error, "position", 0))
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return f"{name} line {line} column {column}: {getattr(error, 'reason', 'not YAML')}"


def _text_before(text: str, position: int) -> str:
    """Return what stands before a position; libyaml counts bytes, PyYAML characters."""
    return text[:position] if _LOADER is yaml.SafeLoader else text.encode()[:position].decode(errors="ignore")


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == _NULL


@dataclass
class _Flattener:
    """Collects values while the nodes of one document are visited."""

    name: str
    values: dict[str, Value] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    visited: int = 0

    def error_at(self, node: yaml.Node, message: str) -> _InvalidError:
        return _InvalidError(f"{self.name} line {node.start_mark.line + 1}: {message}")

    def count_visit(self, node: yaml.Node, depth: int) -> None:
        """Bound the work: an alias may stand for a node many times, or for one that it is in."""
        self.visited += 1
        if self.visited > _MAX_NODES or depth > _MAX_DEPTH:
            raise self.error_at(node, _TOO_LARGE)

    def add_mapping(self, node: yaml.MappingNode, prefix: str, depth: int) -> None:
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or not key.value:
                raise self.error_at(key, "a key must be text")
            self.value(value, prefix + str(key.value), depth=depth + 1, line=key.start_mark.line + 1)

    def value(self, node: yaml.Node, key: str, *, depth: int, line: int) -> None:
        self.count_visit(node, depth)
        if isinstance(node, yaml.MappingNode):
            self.add_mapping(node, key + ".", depth)
        elif isinstance(node, yaml.SequenceNode):
            self.add_sequence(node, key, depth=depth, line=line)
        elif not _is_null(node):
            self.store(key, self.text(node), line)

    def add_sequence(self, node: yaml.SequenceNode, key: str, *, depth: int, line: int) -> None:
        """A list of maps becomes numbered keys, any other list Flink's text of a list, and so do plans."""
        if not node.value or not all(isinstance(item, yaml.MappingNode) for item in node.value):
            self.store(key, self.format_list(node), line)
        elif key.endswith(ScheduleOptions.schedule_plans.key):
            self.store(key, format_plans(map(self.format_plan, node.value)), line)
        else:
            for index, item in enumerate(node.value):
                self.value(item, f"{key}.{index}", depth=depth + 1, line=item.start_mark.line + 1)

    def format_list(self, node: yaml.SequenceNode) -> str:
        texts = []
        for item in node.value:
            self.count_visit(item, 0)
            if not isinstance(item, yaml.ScalarNode) or _is_null(item):
                raise self.error_at(item, "a list holds either maps or plain values")
            texts.append(self.text(item))
        return format_list(texts)

    def format_plan(self, node: yaml.MappingNode) -> list[tuple[str, str]]:
        fields = []
        for name, value in node.value:
            self.count_visit(value, 0)
            if not _is_null(value):
                text = self.format_list(value) if isinstance(value, yaml.SequenceNode) else self.text(value)
                fields.append((self.text(name), text))
        if not fields:
            raise self.error_at(node, "a plan is empty")
        return fields

    def text(self, node: yaml.Node) -> str:
        if node.tag not in _SCALARS:
            raise self.error_at(node, f"the tag {node.tag} is not supported")
        return str(node.value)

    def store(self, key: str, text: str, line: int) -> None:
        if key in self.lines:
            self.problems.append(f"{self.name} line {line}: {key} is already set in line {self.lines[key]}")
            return
        self.lines[key] = line
        self.values[key] = Value(text, f"{self.name} line {line}")


def read_installation(environment: Mapping[str, str]) -> Layer:
    """Read the directory that ``FLINK_CONF_DIR`` names; nothing when it is not set.

    Where both files are there only ``flink-conf.yaml`` counts, as in Flink 1.18 to 1.20. A directory that is missing
    or has neither is a problem.
    """
    if DIRECTORY_VARIABLE not in environment:
        return Layer()
    text = environment[DIRECTORY_VARIABLE]
    directory = Path(text)
    if not text or not directory.is_dir():
        return failed_layer(f"environment variable {DIRECTORY_VARIABLE}: there is no directory '{text}'")
    if (directory / LEGACY_FILE).is_file():
        return replace(_read_legacy(directory), is_of_flink=True)
    if (directory / FILE).is_file():
        return replace(read_yaml(directory / FILE), is_of_flink=True)
    return failed_layer(f"environment variable {DIRECTORY_VARIABLE}: {text} has neither {FILE} nor {LEGACY_FILE}")


def _read_legacy(directory: Path) -> Layer:
    file = directory / LEGACY_FILE
    try:
        layer = parse_legacy(read_text(file), str(file))
    except FileUnreadableError as error:
        return failed_layer(error)
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
