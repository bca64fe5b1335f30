"""What all sections of the settings have in common."""

from __future__ import annotations

from pydantic import AliasGenerator, BaseModel, ConfigDict


class Section(BaseModel):
    """A group of options. Keys are the field names with hyphens, unless a field says otherwise."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        hide_input_in_errors=True,
        alias_generator=AliasGenerator(validation_alias=lambda name: name.replace("_", "-")),
    )
