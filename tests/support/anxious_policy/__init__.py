"""A plug-in policy that changes nothing and asks in every pass for an early one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

NAME: Final = "anxious"
_POINT: Final = f"[flink_autoscaler.policies]\n{NAME} = fa_anxious_policy:Anxious\n"
_POLICY: Final = '''
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.policy_values import Proposal, ProposalDirection


class Anxious:
    """Changes nothing and always wants to look again at once."""

    name = "anxious"
    needs_no_window = True

    def propose(self, given):
        targets = {v: each.parallelism for v, each in given.obs.vertices.items()}
        reasons = (Reason("ANXIOUS", "who knows"),)
        return Proposal(
            self.name, targets, ProposalDirection.NONE, {}, 1.0, reasons, look_again_at=given.obs.now
        )
'''


def install(folder: Path) -> str:
    """Write the policy into a folder, as an installation would, and return its name.

    Who has the folder on its path of modules knows the policy by its entry point.
    """
    metadata = folder / "fa_anxious_policy-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: fa-anxious-policy\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(_POINT)
    (folder / "fa_anxious_policy.py").write_text(_POLICY)
    return NAME
