"""What the tests of the engines share: a fleet on a fake cluster, engines, and equality that knows NaN."""

from testkit.builders.pipeline.equality import comparable
from testkit.builders.pipeline.fleet import JOB_DEADLINE, Fleet, a_request, next_pass

__all__ = ["JOB_DEADLINE", "Fleet", "a_request", "comparable", "next_pass"]
