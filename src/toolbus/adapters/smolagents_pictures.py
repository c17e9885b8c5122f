"""Pictures as Pillow opens them, also with checksums that are wrong.

Pillow refuses a PNG for one wrong checksum, where browsers and providers show it. Its switch for that is one
for the whole process, so here the checksums are made right instead.
"""

import io
import struct
import zlib

from toolbus.adapters.extra import needs
from toolbus.core.records import Image

with needs("smolagents"):
    from PIL import Image as Pillow

_PNG = b"\x89PNG\r\n\x1a\n"


def opened(image: Image) -> Pillow.Image | None:
    """The picture; None if Pillow does not know its format, or it is broken."""
    return _read(image.data) or (_read(_mended(image.data)) if image.data.startswith(_PNG) else None)


def _read(data: bytes) -> Pillow.Image | None:
    try:
        return Pillow.open(io.BytesIO(data)).copy()
    except (OSError, ValueError, SyntaxError, Pillow.DecompressionBombError):
        return None


def _mended(data: bytes) -> bytes:
    """The PNG with the right checksum after each of its chunks: length, type and content, checksum."""
    whole, at = [_PNG], len(_PNG)
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4])
        chunk = data[at + 4 : at + 8 + length]
        whole += [data[at : at + 4], chunk, struct.pack(">I", zlib.crc32(chunk))]
        at += 12 + length
    return b"".join(whole)
