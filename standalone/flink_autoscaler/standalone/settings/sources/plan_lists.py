"""Plans of the policy ``schedule`` that a file lists as maps: they become the text of their option."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from flink_autoscaler.core.model.syntax import shortened
from flink_autoscaler.core.options.policies import ScheduleOptions
from flink_autoscaler.core.options.schedule_plans import format_plans, plan_problems
from flink_autoscaler.standalone.settings.sources.layer import Layer, Value

_OPTIONS: Final = "|".join(map(re.escape, ScheduleOptions.schedule_plans.keys))
_FIELD: Final = re.compile(
    rf"(?P<key>(autoscaler\.clusters\.\d+\.options\.)?({_OPTIONS}))\.(?P<number>\d+)\.(?P<field>.+)",
    re.ASCII | re.DOTALL,
)
_NUMBER: Final = re.compile(r"0|[1-9]\d{0,2}", re.ASCII)

_MOST_MISSING: Final = 3

Plans = Mapping[int, Mapping[str, Value]]
"""By number, counted from 0, and field."""


def with_plans(layer: Layer) -> Layer:
    """Return a layer in which plans that are listed as maps are text, as if it had been written.

    What is wrong with a plan is a problem that names the key, the number of the plan and the field; nothing is set
    then.
    """
    listed: dict[str, dict[int, dict[str, Value]]] = defaultdict(lambda: defaultdict(dict))
    values, problems = dict[str, Value](), list[str]()
    for key, value in layer.values.items():
        match = _FIELD.fullmatch(key)
        if match is None:
            values[key] = value
        elif _NUMBER.fullmatch(match["number"]):
            listed[match["key"]][int(match["number"])][match["field"]] = value
        else:
            problems.append(f"{shortened(key)} ({value.origin}): expected the number of a plan, 0 to 999")
    problems += [problem for key, plans in listed.items() for problem in _problems(key, plans, values)]
    if not problems:
        values |= {key: _text(plans) for key, plans in listed.items()}
    return replace(layer, values=values, problems=(*layer.problems, *problems))


def _problems(key: str, plans: Plans, values: Mapping[str, Value]) -> Iterator[str]:
    first = _origin(plans[min(plans)])
    if key in values:
        yield f"{key} is set as text ({values[key].origin}) and as a list ({first}): expected one of them"
    missing = [number for number in range(max(plans)) if number not in plans]
    for number in missing[:_MOST_MISSING]:
        yield f"{key} ({first}): plan {number + 1} is empty"
    if len(missing) > _MOST_MISSING:
        yield f"{key} ({first}): {len(missing) - _MOST_MISSING} more plans are empty"
    for number, plan in sorted(plans.items()):
        texts = {name: value.text for name, value in plan.items()}
        for name, problem in plan_problems(texts).items():
            if name:
                place = f"{key}.{number}.{shortened(name)} = '{shortened(texts[name])}' ({plan[name].origin})"
                yield f"{place}: plan {number + 1}: {problem}"
            else:
                yield f"{key}.{number} ({_origin(plan)}): plan {number + 1} {problem}"


def _text(plans: Plans) -> Value:
    texts = [{name: value.text for name, value in plan.items()} for _, plan in sorted(plans.items())]
    return Value(format_plans(texts), _origin(plans[min(plans)]))


def _origin(plan: Mapping[str, Value]) -> str:
    return next(iter(plan.values())).origin
