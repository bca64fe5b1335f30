"""The pages of the API of the ports: one per module, of the names that plug-ins may rely on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from flink_autoscaler.core import ports

PACKAGE = "flink_autoscaler.core.ports"


def api_pages() -> Iterator[tuple[str, str]]:
    """Yield the name of a module of the ports, and its page: directives that mkdocstrings replaces by docstrings."""
    named = sorted((vars(ports)[name].__module__, name) for name in ports.__all__ if name.isidentifier())
    for module, group in groupby(named, key=lambda pair: pair[0]):
        if module.startswith(PACKAGE):
            short = module.rpartition(".")[2]
            yield short, f"# {short}\n\n" + "\n".join(f"::: {module}.{name}\n" for _, name in group)
