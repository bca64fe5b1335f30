"""Today's version writes first, then the last release goes on: the quickest look at whether a way back is there."""

from __future__ import annotations

import pytest

from testkit.scenarios.upgrading import Site, Version, known_revision, said

pytestmark = [
    pytest.mark.suite(name="upgrade"),
    pytest.mark.guard,
    pytest.mark.parametrize("settings", ["sqlite"], indirect=True),
]


def test_last_release_goes_on_with_what_this_version_wrote(site: Site, old: Version, new: Version) -> None:
    with site.running(new, rescales=1):
        site.order(new)
    written = site.kept(new)

    refusal = site.refused(old)
    said(site.call(new, "db", "downgrade", known_revision(refusal)))
    with site.running(old, rescales=1):
        kept = site.kept(old)

    assert written.lost(kept) == {}
    assert site.disobeyed() == []
