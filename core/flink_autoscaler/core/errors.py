"""Errors raised by the autoscaler.

AutoscalerError
├── ConfigError             the configuration must change
├── NotReadyError           expected; try again next cycle
│   ├── MissingMetricError
│   └── NotLeaderError      another daemon may act, this one may not
├── FlinkRestError          the cluster did not answer as documented
│   ├── ConnectError        nobody answered, or not in time
│   ├── ResponseError       an answer that is not what Flink sends
│   ├── RefusedError        an HTTP error status
│   └── JobGoneError        the job is not known to the cluster (any more)
├── StoreError              state could not be read or written
├── RealizeError            a decision could not be applied
├── PluginError             a plug-in raised or returned something unusable
└── EvaluationError         the metrics of a job do not allow a decision
"""

from __future__ import annotations

from typing import Final

LONGEST_TEXT: Final = 2000
"""Characters of what foreign code says about itself that are kept: it may be as long as an answer."""


def describe_error(error: BaseException) -> str:
    """Return kind and text of an error that is none of ours, bounded; its text may be code of its own that fails."""
    try:
        text = str(error)
    except Exception as broken:
        text = f"its text cannot be made: {type(broken).__name__}"
    return f"{type(error).__name__}: {text if len(text) <= LONGEST_TEXT else f'{text[:LONGEST_TEXT]}...'}"


class AutoscalerError(Exception):
    """Anything the autoscaler raises on purpose; the message is written for the operator."""

    @property
    def code(self) -> str:
        """The kind of error in a word, such as ``CONFIG``: that of the nearest class of this module."""
        kind = next(each for each in type(self).__mro__ if each.__module__ == __name__)
        return kind.__name__.removesuffix("Error").upper()


class ConfigError(AutoscalerError):
    """The configuration must change. The message names the key, the value and what is allowed."""


class NotReadyError(AutoscalerError):
    """Expected while a job starts; the next cycle tries again."""


class MissingMetricError(NotReadyError):
    """A metric the evaluation needs was not offered by a vertex."""

    def __init__(self, vertex_id: str, metric: str) -> None:
        super().__init__(f"vertex {vertex_id}: no metric {metric}")
        self.vertex_id = vertex_id
        self.metric = metric

    def __reduce__(self) -> tuple[type[MissingMetricError], tuple[str, str]]:
        return MissingMetricError, (self.vertex_id, self.metric)


class NotLeaderError(NotReadyError):
    """Another daemon may act, or may begin to at any moment: this one leaves clusters alone."""


class FlinkRestError(AutoscalerError):
    """The cluster did not answer as documented."""


class ConnectError(FlinkRestError):
    """Nobody answered, or not in time."""


class ResponseError(FlinkRestError):
    """An answer arrived that is not what Flink sends: wrong type, too large, not JSON, missing fields."""


class RefusedError(FlinkRestError):
    """The cluster answered with an HTTP error status.

    Attributes:
        status: The HTTP status, 400 to 599.
        body: The first lines of the error text, for classification; may be empty.
    """

    def __init__(self, message: str, status: int, body: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = body

    def __reduce__(self) -> tuple[type[RefusedError], tuple[str, int, str]]:
        return type(self), (str(self), self.status, self.body)


class JobGoneError(RefusedError):
    """The job is not known to the cluster (any more)."""


class StoreError(AutoscalerError):
    """State could not be read or written."""


class RealizeError(AutoscalerError):
    """A decision could not be applied."""


class PluginError(AutoscalerError):
    """A plug-in raised, or returned something unusable."""

    @classmethod
    def caused_by(cls, error: BaseException) -> PluginError:
        """Give what foreign code raised a place in our tree, with its cause for the log."""
        wrapped = cls(describe_error(error))
        wrapped.__cause__ = error
        return wrapped


class EvaluationError(AutoscalerError):
    """The metrics of a job do not allow a decision, although they should by now."""
