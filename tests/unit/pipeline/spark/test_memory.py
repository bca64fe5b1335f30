"""A driver that does not fit into what its container or unit may take is refused before it is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.spark.environment import memory_limit, require_memory

MB = 1 << 20


def limited(folder: Path, files: dict[str, str], groups: str = "") -> dict[str, Path]:
    """Write control groups as the kernel shows them; return where they are."""
    for name, content in files.items():
        file = folder / "root" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    (folder / "groups").write_text(groups)
    return {"groups": folder / "groups", "root": folder / "root"}


V1 = {"memory/memory.limit_in_bytes": "9223372036854771712\n"}


@pytest.mark.parametrize(
    ("files", "groups", "expected"),
    [
        pytest.param({}, "", None, id="no control groups"),
        pytest.param({"memory.max": f"{256 * MB}\n"}, "0::/\n", 256 * MB, id="container"),
        pytest.param({"memory.max": "max\n"}, "0::/\n", None, id="container without a limit"),
        pytest.param({"system.slice/x/memory.max": f"{MB}\n"}, "0::/system.slice/x\n", MB, id="unit"),
        pytest.param(
            {"memory/memory.limit_in_bytes": f"{MB}\n"}, "3:memory:/docker/1\n", MB, id="container, version 1"
        ),
        pytest.param({**V1, "memory/a/memory.limit_in_bytes": f"{MB}\n"}, "3:memory:/a\n", MB, id="unit, version 1"),
        pytest.param({"memory.max": "garbage"}, "garbage without colons", None, id="garbage"),
    ],
)
def test_limit_is_that_of_the_control_group(
    tmp_path: Path, files: dict[str, str], groups: str, expected: int | None
) -> None:
    assert memory_limit(**limited(tmp_path, files, groups)) == expected


@pytest.mark.parametrize("heap", ["480m", "491520k", "480MB"])
def test_driver_that_does_not_fit_is_refused_with_the_way_out(tmp_path: Path, heap: str) -> None:
    places = limited(tmp_path, {"memory.max": f"{256 * MB}"})

    with pytest.raises(ConfigError, match=r"may take 256 MB .* needs 608 MB .* autoscaler\.engine\.kind: inline"):
        require_memory(heap, **places)


@pytest.mark.parametrize(("heap", "limit"), [("480m", 608 * MB), ("what", 1)], ids=["just enough", "unknown"])
def test_driver_that_fits_or_is_of_unknown_size_is_let_through(tmp_path: Path, heap: str, limit: int) -> None:
    require_memory(heap, **limited(tmp_path, {"memory.max": str(limit)}))
