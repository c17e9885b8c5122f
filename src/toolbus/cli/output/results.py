"""Tool results as text, JSON and files."""

import base64
import mimetypes
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, assert_never

from toolbus.cli.output.screen import Screen, escaped_json, styled, visible
from toolbus.cli.terminal import here
from toolbus.core.text.text import rewritten_json
from toolbus.core.values.records import JSON, Audio, Block, Embedded, Image, ResourceLink, Text, ToolResult
from toolbus.shape.render import deduplicated, human_size, without_base64

# Extensions that mimetypes lacks, or has with an unusual name.
_EXTENSIONS = {"audio/wav": ".wav", "audio/x-wav": ".wav", "image/webp": ".webp", "text/markdown": ".md"}
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")

SavedFiles = Mapping[int, Path]
"""The saved file of each block, by its index in the content."""


def save_blobs(result: ToolResult, folder: Path, tool: str) -> SavedFiles:
    """Save every blob of a result in the folder; never overwrites a file."""
    here(folder).mkdir(parents=True, exist_ok=True)
    files: dict[int, Path] = {}
    for index, block in enumerate(result.content):
        data = _blob_data(block)
        if data is not None:
            files[index] = _write_new_file(data, folder, _file_name(block, tool))
    return files


def content_json(result: ToolResult, files: SavedFiles) -> list[JSON]:
    """The content blocks as JSON; a blob is a path if saved, otherwise base64."""
    return [_block_json(block, files.get(index)) for index, block in enumerate(result.content)]


def print_result(screen: Screen, result: ToolResult, files: SavedFiles) -> None:
    """Print text, structured content and descriptions of blobs, without repetition."""
    style = "red" if result.is_error else ""
    # Base64 is noise on a terminal, but the reader of a pipe may want it.
    shown: Callable[[str], str] = without_base64 if screen.out.is_terminal else str
    single = deduplicated(result)
    for index, block in enumerate(result.content):
        if isinstance(block, Text):
            if block in single.content:
                screen.line((visible(shown(block.text)), style))
        else:
            screen.line((visible(_block_summary(block, files.get(index))), "cyan"))
            if isinstance(block, Embedded) and block.text is not None:
                screen.line(visible(shown(block.text)))
    if single.structured is not None:
        _print_json(
            screen, rewritten_json(single.structured, lambda v: shown(v) if isinstance(v, str) else v)
        )
    if not result.content and result.structured is None:
        screen.line(("(the tool returned nothing)", "dim"))


def _print_json(screen: Screen, value: JSON) -> None:
    from rich.highlighter import JSONHighlighter

    text = styled(escaped_json(value, indent=2))
    if screen.out.is_terminal:
        JSONHighlighter().highlight(text)
    screen.print(text)


def _blob_data(block: Block) -> bytes | None:
    match block:
        case Image() | Audio() | Embedded():
            return block.data
        case Text() | ResourceLink():
            return None
        case _:
            assert_never(block)


def _block_summary(block: Block, file: Path | None) -> str:
    match block:
        case Text():
            return block.text
        case Image() | Audio():
            kind = "image" if isinstance(block, Image) else "audio"
            return f"{kind} {block.mime_type}, {human_size(len(block.data))}{_save_hint(file)}"
        case ResourceLink():
            facts = [
                block.mime_type,
                None if block.size is None else human_size(block.size),
                block.description,
            ]
            return ", ".join([f"link {block.name}: {block.uri}", *(fact for fact in facts if fact)])
        case Embedded():
            facts = [block.mime_type, None if block.data is None else human_size(len(block.data))]
            shown = ", ".join([f"resource {block.uri}", *(fact for fact in facts if fact)])
            return shown + ("" if block.data is None else _save_hint(file))
        case _:
            assert_never(block)


def _save_hint(file: Path | None) -> str:
    return " (save it with --out DIR)" if file is None else f", saved as {file}"


def _block_json(block: Block, file: Path | None) -> JSON:
    """A block as JSON with its type, without empty fields."""
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(block).__name__).lower()
    value: dict[str, JSON] = {"type": kind}
    for name in type(block).__slots__:
        own: Any = getattr(block, name)
        if own is None:
            continue
        if name == "data":
            value |= {"size": len(own)}
            value |= {"data": base64.b64encode(own).decode()} if file is None else {"path": str(file)}
        else:
            value[name] = own
    return value


def _file_name(block: Block, tool: str) -> str:
    """The resource's file name, or else the tool's name with a suitable extension."""
    own = block.uri.rstrip("/").rpartition("/")[2].partition("?")[0] if isinstance(block, Embedded) else ""
    stem = _safe_name(own)
    if stem and Path(stem).suffix:
        return stem
    mime = None if isinstance(block, Text) else block.mime_type
    kind = (mime or "").partition(";")[0].strip().lower()
    return (stem or _safe_name(tool) or "blob") + (
        _EXTENSIONS.get(kind) or mimetypes.guess_extension(kind) or ".bin"
    )


def _safe_name(name: str) -> str:
    """The name without characters that could leave the folder or hide the file."""
    return _UNSAFE.sub("_", name).strip("._")[:100]


def _write_new_file(data: bytes, folder: Path, name: str) -> Path:
    path, number = folder / name, 1
    while True:
        try:
            with here(path).open("xb") as file:
                file.write(data)
            return path
        except FileExistsError:
            number += 1
            path = folder / f"{Path(name).stem}-{number}{Path(name).suffix}"
