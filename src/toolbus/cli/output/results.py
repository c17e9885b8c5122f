"""Tool results as text, JSON and files; and the outcome of a call or script, with its progress."""

import base64
import json
import mimetypes
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, assert_never

from toolbus.cli.command import CommandResult
from toolbus.cli.errors import FAILED
from toolbus.cli.output.screen import Screen, escaped_json, one_line, picked, styled, visible
from toolbus.cli.terminal import here
from toolbus.core.text.text import rewritten_json
from toolbus.core.values.records import (
    JSON,
    Audio,
    Block,
    Embedded,
    Image,
    Progress,
    ResourceLink,
    Text,
    ToolResult,
    ToolSpec,
)
from toolbus.schema.values import entries_of
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


@contextmanager
def call_progress(screen: Screen, name: str) -> Generator[Progress]:
    """Show a progress line; yields the callback that updates it."""
    import asyncio

    with screen.spinner(name) as spinner:
        loop = asyncio.get_running_loop()

        def show(done: float, total: float | None, message: str | None) -> None:
            spinner.set_progress(done, total)
            spinner.set_text(one_line(message or name))

        def progressed(done: float, total: float | None, message: str | None) -> None:
            # Not in the loop of a background bus, which must not wait for a terminal.
            with suppress(RuntimeError):  # the command is over
                loop.call_soon_threadsafe(show, done, total, message)

        yield progressed


def call_outcome(
    screen: Screen, spec: ToolSpec, result: ToolResult, out: Path | None, seconds: float
) -> CommandResult:
    """The result, or the pending call if it was suspended."""
    files: SavedFiles = {} if out is None else save_blobs(result, out, spec.name)

    def facts() -> dict[str, JSON]:
        content = content_json(result, files)
        said = {**picked(result, "is_error text"), "content": content, "structured": result.structured}
        return {**named_json(spec), **said}

    return _suspendable(screen, facts, result, seconds, lambda: print_result(screen, result, files))


def script_outcome(screen: Screen, result: ToolResult, seconds: float) -> CommandResult:
    """The result of a script, or the suspended script."""
    # Its text has all that a person reads; the rest is for programs.
    said = replace(result, structured=None)

    def facts() -> dict[str, JSON]:
        return {**picked(result, "is_error text"), **entries_of(result.structured)}

    return _suspendable(screen, facts, result, seconds, lambda: print_result(screen, said, {}))


def _suspendable(
    screen: Screen,
    facts: Callable[[], dict[str, JSON]],
    result: ToolResult,
    seconds: float,
    lines: Callable[[], None],
) -> CommandResult:
    """The result that these facts and lines are about, or the pending call if it was suspended."""
    # The same keys as without --json, so that `resume` accepts both.
    waiting: dict[str, JSON] = {} if result.pending is None else json.loads(result.pending.to_json())

    def print_pending() -> None:
        print(escaped_json(waiting), flush=True)
        screen.note(f"{result.pending}; to answer, run: toolbus call --resume FILE")

    def document() -> JSON:
        return {**facts(), "elapsed_ms": round(seconds * 1000, 1), **waiting}

    return CommandResult(document, print_pending if waiting else lines, FAILED if result.is_error else 0)


def named_json(spec: ToolSpec) -> dict[str, JSON]:
    """The names of a tool, for `--json`."""
    return {"name": spec.name, **picked(spec.origin, "server tool")}
