"""Binary content of results as files, in the folder that the config names; a model gets their paths."""

import hashlib
import mimetypes
from dataclasses import replace
from pathlib import Path

from toolbus.core.files import replaced
from toolbus.core.values.records import Audio, Block, Embedded, Image, Text, ToolResult
from toolbus.shape.render import human_size

_NAME = 16
"""Characters of the digest in a file name."""


def with_files(result: ToolResult, folder: str) -> ToolResult:
    """The result with lines in place of its binary content; the same object if it has none.

    Raises OSError if a file cannot be written.
    """
    content = tuple(_kept(block, Path(folder)) for block in result.content)
    is_same = all(a is b for a, b in zip(content, result.content, strict=True))
    return result if is_same else replace(result, content=content)


def _kept(block: Block, folder: Path) -> Block:
    if not isinstance(block, Image | Audio | Embedded) or block.data is None:
        return block
    kind = type(block).__name__.lower().replace("embedded", "file")
    mime = block.mime_type or "application/octet-stream"
    path = _written(block.data, folder, mimetypes.guess_extension(mime) or ".bin")
    return Text(text=f"[{kind}: {mime}, {human_size(len(block.data))}, kept as {path}]")


def _written(data: bytes, folder: Path, ending: str) -> Path:
    """The file of some content; the same content has the same file."""
    path = folder / f"{hashlib.sha256(data).hexdigest()[:_NAME]}{ending}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with replaced(path, ".draft-", durable=False) as draft:
            draft.write_bytes(data)
    return path
