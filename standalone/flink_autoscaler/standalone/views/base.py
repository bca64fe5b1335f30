"""How read models are written: texts without secrets, and numbers that JSON knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from flink_autoscaler.core.model.numbers import finite
from flink_autoscaler.standalone.settings.secrets import mask_secrets


def plain_value(value: Any) -> Any:
    """Return a value of the core in terms of JSON, without secrets."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return finite(value)
    if is_dataclass(value):
        return {part.name: plain_value(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain_value(entry) for key, entry in value.items()}
    if isinstance(value, frozenset):
        return sorted(map(str, value))
    if isinstance(value, tuple | list):
        return [plain_value(entry) for entry in value]
    return mask_secrets(value) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(mask_secrets)]
"""A text, or an error, as people may see it."""

Number = Annotated[float | None, BeforeValidator(finite)]
"""A number; null is not known."""

Value = Annotated[Any, BeforeValidator(plain_value)]
"""A value of the core, whatever it consists of."""


class View(BaseModel):
    """A part of what people and programs see; made from keywords, or from anything with such attributes."""

    model_config = ConfigDict(frozen=True, extra="forbid", from_attributes=True)
