"""The live view of the demo as an SVG file."""

from __future__ import annotations

import io

from demo.screen import Frame, Screen, picture
from rich.console import Console
from rich.terminal_theme import MONOKAI

_COLUMNS = 80
_SETTLED = 8.0
"""Seconds after a confirmed scale-up at which the lag drains, and says so."""

# As rich's own, but with the fonts of the reader's machine: rich's loads one from another host.
_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>{unique_id}: the live view of the demo</title>
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px "DejaVu Sans Mono", Menlo, Consolas, monospace; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def live_view_svg(frame: Frame) -> str:
    """Draw a frame as a terminal shows it, as SVG that loads nothing."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(picture(frame))
    text = console.export_svg(title="make demo", theme=MONOKAI, code_format=_FORMAT, unique_id="demo")
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


class RecordingScreen(Screen):
    """Shows what the demo does, and keeps the picture after the last settled scale-up.

    Attributes:
        svg: The live view; empty before a scale-up has settled.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.svg = ""
        self._ups_drawn = 0

    def show(self, frame: Frame) -> None:
        """Show how things are now; draw the frame when it is the one to keep."""
        super().show(frame)
        ups = [rescale for rescale in frame.story.rescales if rescale.is_up and rescale.change is not None]
        if len(ups) > self._ups_drawn and frame.now >= ups[-1].at + _SETTLED:
            self._ups_drawn = len(ups)
            self.svg = live_view_svg(frame)
