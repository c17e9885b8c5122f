"""The demo's pictures: real PNG images, looked at pixel by pixel."""

import struct
import zlib
from typing import NamedTuple

import pytest

from tests.demo.running import Servers, in_two_places
from toolbus import Toolbus, ToolResult
from toolbus.demo.pictures import AXIS, BAR, BELOW, PAPER, Color, pictures_server
from toolbus.records import Image, Text

pytestmark = pytest.mark.anyio


class Picture(NamedTuple):
    """A decoded image; `rows[y][x]` is a color."""

    width: int
    height: int
    rows: list[list[Color]]


def decoded(data: bytes) -> Picture:
    """An image of 8 bit RGB without row filters; checks every checksum."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks: list[tuple[bytes, bytes]] = []
    rest = data[8:]
    while rest:
        [size] = struct.unpack(">I", rest[:4])
        kind, body = rest[4:8], rest[8 : 8 + size]
        assert struct.unpack(">I", rest[8 + size : 12 + size]) == (zlib.crc32(kind + body),)
        chunks.append((kind, body))
        rest = rest[12 + size :]
    [(first, header), (second, pixels), (third, end)] = chunks
    assert (first, second, third, end) == (b"IHDR", b"IDAT", b"IEND", b"")
    width, height, *kind = struct.unpack(">IIBBBBB", header)
    assert kind == [8, 2, 0, 0, 0]
    raw = zlib.decompress(pixels)
    stride = 1 + 3 * width
    assert len(raw) == stride * height
    lines = [raw[start : start + stride] for start in range(0, len(raw), stride)]
    assert {line[0] for line in lines} == {0}
    triples = [[tuple(line[x : x + 3]) for x in range(1, stride, 3)] for line in lines]
    return Picture(width, height, [[(r, g, b) for r, g, b in row] for row in triples])


def shown(result: ToolResult) -> tuple[Picture, str]:
    """The picture and the line of text that a result consists of."""
    assert not result.is_error, result.text
    [image, text] = result.content
    assert isinstance(image, Image)
    assert isinstance(text, Text)
    assert image.mime_type == "image/png"
    return decoded(image.data), text.text


def bus_in_memory() -> Toolbus:
    return Toolbus({"servers": {"pictures": {"server": pictures_server()}}})


@in_two_places
async def test_a_plot_shows_its_values_as_bars(servers: Servers) -> None:
    async with Toolbus({"servers": {"pictures": servers.entry("pictures")}}) as bus:
        result = await bus.call("pictures_plot", {"values": [1, -1], "width": 64, "height": 67})
    picture, text = shown(result)
    points = {
        (0, 0): PAPER,
        (8, 7): PAPER,
        (8, 8): BAR,  # the first bar begins at the margin and ends at the zero line
        (27, 32): BAR,
        (28, 32): PAPER,  # the gap between the bars
        (8, 33): AXIS,
        (55, 33): AXIS,
        (56, 33): PAPER,
        (8, 34): PAPER,
        (32, 32): PAPER,
        (32, 34): BELOW,  # the second bar hangs from it
        (51, 58): BELOW,
        (51, 59): PAPER,
    }
    assert (picture.width, picture.height) == (64, 67)
    assert {(x, y): picture.rows[y][x] for x, y in points} == points
    assert text == "bar chart of 2 values from -1 to 1, 64 x 67 pixels"


@in_two_places
async def test_a_swatch_is_of_one_color(servers: Servers) -> None:
    async with Toolbus({"servers": {"pictures": servers.entry("pictures")}}) as bus:
        result = await bus.call("pictures_swatch", {"color": "#Ff8000", "size": 32})
    picture, text = shown(result)
    assert picture == Picture(32, 32, [[(255, 128, 0)] * 32] * 32)
    assert text == "swatch of #Ff8000, 32 x 32 pixels"


async def test_the_height_of_a_bar_is_its_share_of_the_largest() -> None:
    async with bus_in_memory() as bus:
        result = await bus.call("pictures_plot", {"values": [1, 2, 4], "height": 117, "width": 46})
    picture, _ = shown(result)
    heights = [sum(picture.rows[y][x] == BAR for y in range(117)) for x in (8, 18, 28)]
    assert heights == [25, 50, 100]  # and the zero line below


@pytest.mark.parametrize("values", [[0], [5], [-5], [0, 0], [1e12, -1e12]])
async def test_every_list_of_numbers_has_a_picture(values: list[float]) -> None:
    async with bus_in_memory() as bus:
        picture, text = shown(await bus.call("pictures_plot", {"values": values}))
    assert (picture.width, picture.height) == (480, 240)
    assert text.startswith(f"bar chart of {len(values)} values from {min(values):g} to {max(values):g}")


async def test_what_cannot_be_drawn_is_refused_with_the_reason() -> None:
    async with bus_in_memory() as bus:
        crowded = await bus.call("pictures_plot", {"values": [1] * 100, "width": 100})
        empty = await bus.call("pictures_plot", {"values": []})
        unnamed = await bus.call("pictures_swatch", {"color": "red"})
    assert [result.is_error for result in (crowded, empty, unnamed)] == [True] * 3
    assert crowded.text.endswith("100 bars do not fit in a width of 100; use 116 or more")
    assert "argument 'values'" in empty.text
    assert "argument 'color'" in unnamed.text
