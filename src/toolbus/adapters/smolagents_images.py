"""Open images with Pillow, even with wrong checksums.

Pillow rejects a PNG with a wrong checksum, which browsers and providers accept. Its option for that applies
to the whole process, so the checksums are corrected here instead.
"""

import io
import struct
import zlib

from toolbus.adapters.extra import require_extra
from toolbus.core.values.records import Image

with require_extra("smolagents"):
    from PIL import Image as Pillow

_PNG = b"\x89PNG\r\n\x1a\n"


def open_image(image: Image) -> Pillow.Image | None:
    """The image; None if Pillow does not know its format, or it is broken."""
    return _read(image.data) or (
        _read(_with_right_checksums(image.data)) if image.data.startswith(_PNG) else None
    )


def _read(data: bytes) -> Pillow.Image | None:
    try:
        return Pillow.open(io.BytesIO(data)).copy()
    except (OSError, ValueError, SyntaxError, Pillow.DecompressionBombError):
        return None


def _with_right_checksums(data: bytes) -> bytes:
    """Correct the checksum of every chunk of a PNG; a chunk is length, type, content and checksum."""
    parts, at = [_PNG], len(_PNG)
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4])
        chunk = data[at + 4 : at + 8 + length]
        parts += [data[at : at + 4], chunk, struct.pack(">I", zlib.crc32(chunk))]
        at += 12 + length
    return b"".join(parts)
