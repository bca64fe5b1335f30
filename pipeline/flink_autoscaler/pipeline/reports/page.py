"""Writes pages of HTML that need nothing else."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final

import jinja2
from markupsafe import Markup

from flink_autoscaler.core.model.numbers import three_digits
from flink_autoscaler.pipeline.reports.charts import script
from flink_autoscaler.pipeline.reports.measures import instant

_LARGE: Final = 10_000
_UNITS: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SHORT: Final = 120.0


def written(template: str, *, generator: str, **values: object) -> str:
    """Return a page as HTML. Texts are foreign, those of a history for one, and escaped.

    Args:
        template: Name of its file.
        generator: By which a page is known to be ours.
        values: For the template.
    """
    scripts = [script(), _resource("page.js")]
    return (
        _templates()
        .get_template(template)
        .render(
            generator=generator,
            policy=_policy(scripts),
            scripts=[Markup(each) for each in scripts],  # noqa: S704 - from installed packages
            style=Markup(_resource("page.css")),  # noqa: S704 - likewise
            **values,
        )
    )


def _policy(scripts: Sequence[str]) -> str:
    """Return the content security policy: nothing from elsewhere, no script but these."""
    hashes = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts)
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; font-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.FunctionLoader(_resource),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, share=share, duration=duration, instant=instant)
    return environment


def _resource(name: str) -> str:
    return files("flink_autoscaler.pipeline.reports").joinpath(name).read_text(encoding="utf-8")


def number(value: float | None) -> str:
    """Write a number for people, with three digits or more; a dash where it is not known."""
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) >= _LARGE:
        size, unit = next((size, unit) for size, unit in _UNITS if abs(value) >= size)
        return f"{value / size:.3g} {unit}" if abs(value) < 1000 * size else f"{value / size:,.0f} {unit}"
    return three_digits(value)


def share(value: float | None) -> str:
    """Write a share, 0..1, in percent."""
    return "–" if value is None else f"{value:.0%}"


def duration(seconds: float | None) -> str:
    """Write seconds for people."""
    if seconds is None:
        return "–"
    if seconds < _SHORT:
        return f"{seconds:.3g} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
