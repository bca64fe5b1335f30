"""Pages for a browser: about a fleet and its jobs, from the metric history, and about backtests.

Importing this package imports neither Spark nor Arrow, and what draws charts only when a page is made: see
:mod:`.build` and :mod:`.fleet` for the fleet, and :mod:`.backtest`.
"""

from importlib.util import find_spec

from flink_autoscaler.core.errors import ConfigError


def require_libraries() -> None:
    """Check that what draws pages is installed.

    Raises:
        ConfigError: It is not; the message says how to install it.
    """
    if missing := [name for name in ("bokeh", "jinja2") if find_spec(name) is None]:
        raise ConfigError(f"reports need {' and '.join(missing)}: pip install 'flink-autoscaler[report]'")


__all__ = ["require_libraries"]
