"""Extension by which mkdocstrings reads docstrings as the site wants them; griffe comes with the extra ``docs``."""

from __future__ import annotations

from typing import Any

from griffe import Extension, Object

from docs_site.roles import without_roles


class PlainRoles(Extension):  # type: ignore[misc, unused-ignore]  # without the extra it has no type
    """Rewrites each docstring when it has been read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of an object, where it has one."""
        if obj.docstring:
            obj.docstring.value = without_roles(obj.docstring.value)
