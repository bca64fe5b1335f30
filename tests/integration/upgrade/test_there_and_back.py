"""The last release and today's version work with one database in turn: there, back, and there again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from testkit.scenarios.upgrading import Kept, Site, Version, known_revision, said

pytestmark = pytest.mark.suite(name="upgrade")

JOB = "main/orders"


def test_nothing_is_lost_by_an_upgrade_the_way_back_and_another_upgrade(site: Site, old: Version, new: Version) -> None:
    site.upgrade(old)
    with site.running(old):
        site.order(old)
    begun, kept_by_old = datetime.now(UTC), site.kept(old)
    site.note(f"{old.name} begins", kept_by_old)

    require_upgrade(site, new)
    kept_by_new = passed_on(site, kept_by_old, old, new)
    read_record(site, new, begun)

    way_back(site, old, new)
    kept_back = passed_on(site, kept_by_new, new, old)
    read_record(site, old, begun)

    site.upgrade(new)
    passed_on(site, kept_back, old, new)
    print("\n" + "\n".join(site.notes))
    assert site.disobeyed() == []


def passed_on(site: Site, before: Kept, giver: Version, taker: Version) -> Kept:
    """Let a version go on where the other one stopped; return what there is then."""
    with site.running(taker):
        after = site.kept(taker)
    site.note(f"{giver.name} to {taker.name}", after)
    assert before.lost(after) == {}
    return after


def require_upgrade(site: Site, new: Version) -> None:
    """Upgrade the schema, where the daemon does not do it itself; it asks for it then."""
    if not site.upgrades_by_itself:
        assert site.refused(new).endswith("run flink-autoscaler db upgrade")
        assert "upgraded from" in site.upgrade(new)


def way_back(site: Site, old: Version, new: Version) -> None:
    """Let the older version in again; without that it refuses, and says with which revision it can work."""
    refusal = site.refused(old)
    assert "a newer flink-autoscaler has upgraded it; install that version, or" in refusal
    said(site.call(new, "db", "downgrade", known_revision(refusal)))


def read_record(site: Site, version: Version, at: datetime) -> None:
    """Read the latest recorded pass at an instant, and do it again: another version may come to something else."""
    assert JOB in said(site.call(version, "explain", JOB, "--at", at.isoformat()))
    replayed = site.call(version, "replay", "--job", JOB, "--at", at.isoformat())
    assert (replayed.returncode in (0, 1), replayed.stderr) == (True, ""), replayed.stderr
