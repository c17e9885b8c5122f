"""Render a result for a model: text always, images and audio if it supports them, base64 never.

Anything else becomes one line of description, `[image: image/png, 4.2 kB]`, so the model knows about it.
The raw result is the `ToolResult` itself.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, assert_never

from toolbus.core.values.records import JSON, Audio, Block, Embedded, Image, ResourceLink, Text, ToolResult
from toolbus.schema.values import entries_of, items_of

Shown: TypeAlias = Text | Image | Audio
Structured: TypeAlias = Literal["auto", "always", "never"]
"""The rule for structured content: only if there is no text, always (without repeating it), or never."""

# JSON must stay JSON: a replaced part contains no quote and no part of an escape.
_ESCAPED = r"(?:\\u[0-9A-Fa-f]{4}|\\.)"
_DATA_URI = re.compile(
    r"data:(?P<type>(?:application|audio|font|image|model|multipart|text|video)\\?/[A-Za-z0-9.+_-]{1,80})?"
    r"(?:;[A-Za-z0-9.+_-]{1,40}=[A-Za-z0-9.+_%-]{0,200}){0,8}"
    r"(?:;base64,(?P<base64>(?:[A-Za-z0-9+/=_%-]|\\/)*+)|,(?P<plain>[A-Za-z0-9+/=_%.~!$&*:@?#;,-]*+))"
)
# A run starts where no other one did, so that each character is read once. Wrapped text needs 64 lines: a
# key or a certificate is shorter.
_BASE64 = re.compile(
    rf"(?:(?<![\\A-Za-z0-9+/_-])|(?<!\\)(?P<escapes>{_ESCAPED}{{1,8}}+))"
    r"(?P<run>[A-Za-z0-9+/_-]{1000,}+={0,2}"
    r"|(?:[A-Za-z0-9+/]{60,100}(?:\r?\n|(?:\\r)?\\n)){64,}+[A-Za-z0-9+/]*+={0,2})"
)
# Every run of 1,000 covers a block of 500 that starts at a multiple of 500: other text is cheap to rule out.
_STRIDE = 500
_BLOCK = re.compile(r"[A-Za-z0-9+/_\\\r\n-]{500}")
# A row of dashes, a genome or a hex dump is not base64; nearly every blob has one of each of these.
_KINDS = [re.compile("[A-Z]"), re.compile("[a-z]"), re.compile("[0-9]")]
_FILE_STARTS = {
    "iVBORw0KGg": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "RIFF, image/webp or audio/wav",
    "JVBERi0": "application/pdf",
    "UEsDB": "application/zip",
    "H4sI": "application/gzip",
}
# The start of a known file format is enough, however short the rest is.
_LINE_END = r"(?:\r?\n|(?:\\r)?\\n)"
_FILE = re.compile(
    rf"(?<![\\A-Za-z0-9+/_-])(?P<escapes>)(?P<run>(?:{'|'.join(map(re.escape, _FILE_STARTS))})"
    r"(?:[A-Za-z0-9+/_-]|\\/){56,}+={0,2}"
    # Wrapped: lines of one length, and a last one that cannot be a word.
    rf"(?:{_LINE_END}[A-Za-z0-9+/]{{60,100}}+)*+(?:{_LINE_END}(?:[A-Za-z0-9+/]{{24,99}}+|[A-Za-z0-9+/]{{1,23}}+=)={{0,2}})?+)"
)


def rendered(
    result: ToolResult, *, images: bool = False, audio: bool = False, structured: Structured = "auto"
) -> tuple[Shown, ...]:
    """The blocks for a model, in order; structured content comes last, as compact JSON."""
    if structured == "always":
        result = deduplicated(result)
    with_structured = _includes_structured(result, structured)
    # Blank text is left out: it is useless, and some providers reject a message that has it.
    shown = [
        part
        for block in result.content
        for part in _rendered_block(block, images=images, audio=audio)
        if not isinstance(part, Text) or part.text.strip()
    ]
    if with_structured:
        shown.append(Text(text=without_base64(_compact(result.structured))))
    if not shown:
        shown.append(Text(text="(error without a message)" if result.is_error else "(no output)"))
    return tuple(shown)


def rendered_text(result: ToolResult, *, structured: Structured = "auto") -> str:
    """Everything as one text, for a model that supports nothing else."""
    return ToolResult(content=rendered(result, structured=structured)).text


def deduplicated(result: ToolResult) -> ToolResult:
    """The result without duplicates; most servers repeat structured content as text.

    Removes text that is the structured content as JSON, and structured content that only wraps the text:
    `{"result": ...}`, or any other key with the same text. The same object if there is no duplicate.
    """
    if result.structured is None:
        return result
    if _wraps(result.structured, [block.text for block in result.content if isinstance(block, Text)]):
        return replace(result, structured=None)
    content = tuple(
        block
        for block in result.content
        if not isinstance(block, Text) or _parsed(block.text) != result.structured
    )
    return result if len(content) == len(result.content) else replace(result, content=content)


def _wraps(structured: JSON, texts: Sequence[str]) -> bool:
    """Whether an object has a single value, which is these texts."""
    entries = entries_of(structured)
    if len(entries) != 1:
        return False
    [(key, value)] = entries.items()
    if key != "result":
        return list(texts) == [value]
    items = items_of(value)
    is_each = len(items) == len(texts) > 0 and all(map(_is_same, texts, items))
    return is_each or (len(texts) == 1 and _is_same(texts[0], value))


def _is_same(text: str, value: JSON) -> bool:
    """Whether the text is this value: a string as it is, anything else as JSON."""
    return text == value or _parsed(text) == value


def _parsed(text: str) -> JSON:
    """The text parsed as JSON, or as it is."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def described_text(result: ToolResult) -> ToolResult:
    """The result with base64 in its texts replaced by descriptions; the same object if there is none."""
    content = tuple(_described_block(block) for block in result.content)
    same = all(a is b for a, b in zip(content, result.content, strict=True))
    return result if same else replace(result, content=content)


def _described_block(block: Block) -> Block:
    if not isinstance(block, Text | Embedded) or block.text is None:
        return block
    text = without_base64(block.text)
    return block if text is block.text else replace(block, text=text)


def without_base64(text: str) -> str:
    """The text with `data:` URIs and base64 replaced by descriptions; the same object if there is none."""
    shown = _DATA_URI.sub(_described_uri, text) if "data:" in text else text
    if any(_BLOCK.match(shown, at) for at in range(0, len(shown), _STRIDE)):
        shown = _BASE64.sub(_described_run, shown)
    if any(start in shown for start in _FILE_STARTS):
        shown = _FILE.sub(_described_run, shown)
    return text if shown == text else shown


def human_size(count: float) -> str:
    """A number of bytes for humans: `812 B`, `4.2 kB`."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _rendered_block(block: Block, *, images: bool, audio: bool) -> Iterator[Shown]:
    match block:
        case Text():
            text = without_base64(block.text)
            yield block if text is block.text else replace(block, text=text)
        case Image():
            yield block if images else _line("image", block.mime_type, human_size(len(block.data)))
        case Audio():
            yield block if audio else _line("audio", block.mime_type, human_size(len(block.data)))
        case ResourceLink():
            named = block.name if block.title is None else f"{block.name} ({block.title})"
            bytes_ = None if block.size is None else human_size(block.size)
            yield _line("link", block.uri, named, block.mime_type, bytes_, block.description)
        case Embedded():
            yield from _embedded(block, images=images, audio=audio)
        case _:
            assert_never(block)


def _embedded(block: Embedded, *, images: bool, audio: bool) -> Iterator[Shown]:
    if block.data is None:
        line = _line("resource", block.uri, block.mime_type)
        yield Text(text=f"{line.text}\n{without_base64(block.text)}") if block.text else line
        return
    yield _line("resource", block.uri, block.mime_type, human_size(len(block.data)))
    mime = (block.mime_type or "").lower()
    if images and mime.startswith("image/"):
        yield Image(data=block.data, mime_type=mime)
    if audio and mime.startswith("audio/"):
        yield Audio(data=block.data, mime_type=mime)


def _line(kind: str, *facts: str | None) -> Text:
    """One line, without any line breaks that a server put into a name."""
    text = ", ".join(" ".join(fact.split()) for fact in facts if fact and not fact.isspace())
    return Text(text=without_base64(f"[{kind}: {text}]"))


def _includes_structured(result: ToolResult, structured: Structured) -> bool:
    if result.structured is None or structured == "never":
        return False
    # A result that was made smaller would be repeated in full.
    is_wanted = structured == "always" and not entries_of(result.meta.get("toolbus")).get("smaller")
    return is_wanted or not any(
        isinstance(block, Text | Embedded) and block.text and not block.text.isspace()
        for block in result.content
    )


def _compact(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _described_uri(found: re.Match[str]) -> str:
    kind, encoded = found["type"], found["base64"]
    # "metadata:text/x,y" is not a URI; with base64 in it there is no doubt.
    if encoded is None and (kind is None or found.string[found.start() - 1 : found.start()].isalnum()):
        return found[0]
    count = len(found["plain"]) if encoded is None else _decoded(encoded)
    return f"[data: {kind or 'text/plain'}, {human_size(count)}]"


def _described_run(found: re.Match[str]) -> str:
    run = found["run"]
    if not all(kind.search(run) for kind in _KINDS):
        return found[0]
    kind = next((f"{known}, " for start, known in _FILE_STARTS.items() if run.startswith(start)), "")
    return f"{found['escapes'] or ''}[base64: {kind}{human_size(_decoded(run))}]"


def _decoded(base64: str) -> int:
    """About how many bytes the base64 encodes."""
    breaks = base64.count("\n") + 2 * base64.count("\\n")
    return (len(base64.rstrip("=")) - breaks) * 3 // 4
