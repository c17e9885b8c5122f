"""Bar charts and color swatches as PNG images, drawn with the standard library only."""

import struct
import zlib
from collections.abc import Sequence
from typing import Annotated, TypeAlias

from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from toolbus.demo.serve import command_line, serve

Color: TypeAlias = tuple[int, int, int]
PAPER: Color = (255, 255, 255)
BAR: Color = (31, 119, 180)
BELOW: Color = (214, 39, 40)
AXIS: Color = (64, 64, 64)
MARGIN = 8

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
# Bounded, so that the difference of two values is always a number.
Value = Annotated[float, Field(ge=-1e12, le=1e12)]
Side = Annotated[int, Field(ge=32, le=2000, description="In pixels.")]


class Canvas:
    """An image of one color, to draw on."""

    def __init__(self, width: int, height: int, color: Color) -> None:
        self._width = width
        self._rows = [bytearray(bytes(color) * width) for _ in range(height)]

    def fill(self, columns: range, rows: range, color: Color) -> None:
        """Fill a rectangle."""
        for row in rows:
            self._rows[row][columns.start * 3 : columns.stop * 3] = bytes(color) * len(columns)

    def png(self) -> bytes:
        """The image as a PNG file: 8 bits per channel, RGB, no row filter."""
        header = struct.pack(">IIBBBBB", self._width, len(self._rows), 8, 2, 0, 0, 0)
        pixels = zlib.compress(b"".join(b"\0" + row for row in self._rows))
        chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", pixels), _chunk(b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bar_chart(values: Sequence[float], width: int, height: int) -> bytes:
    """A PNG of bars from left to right, negative ones in red; the gray line is zero."""
    canvas = Canvas(width, height, PAPER)
    top, bottom = max(0.0, *values), min(0.0, *values)
    inner_width, inner_height = width - 2 * MARGIN, height - 2 * MARGIN

    def row(value: float) -> int:
        return MARGIN + round((top - value) / ((top - bottom) or 1.0) * (inner_height - 1))

    for index, value in enumerate(values):
        left, right = (MARGIN + inner_width * place // len(values) for place in (index, index + 1))
        bar = range(left, right - (right - left) // 5)
        canvas.fill(bar, range(row(max(value, 0)), row(min(value, 0)) + 1), BELOW if value < 0 else BAR)
    canvas.fill(range(MARGIN, width - MARGIN), range(row(0), row(0) + 1), AXIS)
    return canvas.png()


def pictures_server() -> MCPServer:
    """A server that draws images."""
    server: MCPServer = MCPServer("pictures", instructions="Draws PNG images.", log_level="WARNING")

    @server.tool(annotations=READS, structured_output=False)
    def plot(
        values: Annotated[list[Value], Field(min_length=1, max_length=1000, description="One bar each.")],
        width: Side = 480,
        height: Side = 240,
    ) -> list[Image | str]:
        """Draw numbers as a bar chart: a PNG image, and a line that describes it."""
        if width - 2 * MARGIN < len(values):
            needed = len(values) + 2 * MARGIN
            raise ToolError(f"{len(values)} bars do not fit in a width of {width}; use {needed} or more")
        description = f"bar chart of {len(values)} values from {min(values):g} to {max(values):g}"
        image = Image(data=bar_chart(values, width, height), format="png")
        return [image, f"{description}, {width} x {height} pixels"]

    @server.tool(annotations=READS, structured_output=False)
    def swatch(
        color: Annotated[str, Field(pattern="^#[0-9a-fA-F]{6}$", description="As #rrggbb.")],
        size: Side = 64,
    ) -> list[Image | str]:
        """Draw a square of one color: a PNG image, and a line that describes it."""
        red, green, blue = bytes.fromhex(color[1:])
        image = Image(data=Canvas(size, size, (red, green, blue)).png(), format="png")
        return [image, f"swatch of {color}, {size} x {size} pixels"]

    return server


def main() -> None:
    """Serve the images."""
    serve(pictures_server(), command_line("pictures", __doc__).parse_args().http)


if __name__ == "__main__":
    main()
