"""The options of recorded passes."""

from __future__ import annotations

from pydantic import Field

from flink_autoscaler.standalone.settings.schema.fields import Count, Flag, Seconds
from flink_autoscaler.standalone.settings.schema.section import Section


class RecordSettings(Section):
    """Decisions that are kept with everything that led to them, for explain and replay."""

    enabled: Flag = Field(default=True, description="Whether they are kept, where there is a database.")
    interval: Seconds = Field(
        default=600.0,
        ge=0,
        description="While nothing changes, one pass over a job is recorded in this time; 0 records every pass.",
    )
    retention: Seconds = Field(default=7 * 86_400.0, gt=0, description="Age after which records are removed.")
    max_per_job: Count = Field(default=500, ge=1, description="Records of one job that are kept, the newest ones.")
