"""Cross-references in docstrings are written as roles of Sphinx, which mkdocstrings does not know."""

from __future__ import annotations

import re

_ROLE = re.compile(r":(?:class|meth|func|attr|data|exc|mod|obj):`~?([\w.]+)`")


def without_roles(text: str) -> str:
    """Return a docstring whose roles are code; mkdocstrings makes no links of names that the site does not have."""
    return _ROLE.sub(lambda role: f"`{role[1].rpartition('.')[2]}`", text)
