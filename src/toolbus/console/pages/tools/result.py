"""The result of a call: rendered once or raw, the request, the same call to copy, and files to save."""

import json
import shlex
from base64 import b64encode
from pathlib import Path
from urllib.parse import urlencode

from toolbus.config import BusConfig
from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element
from toolbus.console.page import Download, PageRequest
from toolbus.console.pages.tools.arguments import as_json
from toolbus.console.trials import Trial
from toolbus.core.text.display import PICTURES
from toolbus.core.text.encoding import as_sent
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import (
    JSON,
    Audio,
    Block,
    Embedded,
    Image,
    ResourceLink,
    Text,
    ToolResult,
)
from toolbus.schema.values import is_array, is_object
from toolbus.shape.render import deduplicated, human_size

LONGEST_SHOWN = 30_000
"""The characters of a text that a page shows; the whole can be saved."""
LARGEST_PICTURES = 4 * 1024 * 1024
"""The bytes of all pictures that a page shows."""
MOST_BLOCKS = 100
_VIEWS = (("shown", "Result"), ("raw", "Raw"), ("request", "Request"))
_SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "audio/wav": ".wav",
    "audio/mpeg": ".mp3",
}


def result_views(trial: Trial, tool: str) -> Element:
    """The result, the answer as JSON, and the request: one of them is shown."""
    result = trial.result
    assert result is not None, "the call has ended"
    key = f"views-{trial.number}"
    picks = [
        element(
            "span",
            element(
                "input",
                type="radio",
                name=key,
                value=name,
                id=f"{key}-{name}",
                class_=f"pick-{name}",
                checked=name == "shown",
            ),
            element("label", label, for_=f"{key}-{name}"),
        )
        for name, label in _VIEWS
    ]
    request = {"method": "tools/call", "params": {"name": tool, "arguments": dict(trial.sent)}}
    return element(
        "div",
        element("fieldset", element("legend", "View", class_="spoken"), picks, class_="picks"),
        element("div", shown_result(result, trial.number), class_="view view-shown"),
        element("div", _json(as_sent(result), "the answer as JSON", trial.number), class_="view view-raw"),
        element("div", _json(request, "the request as JSON"), class_="view view-request"),
        class_="views",
    )


def shown_result(result: ToolResult, trial: int | None = None) -> Child:
    """The parts of a result, each of them once; `trial` is the call whose files can be saved."""
    once = deduplicated(result)
    left, shown = LARGEST_PICTURES, list[Child]()
    for index, block in enumerate(result.content[:MOST_BLOCKS]):
        if block not in once.content:
            continue
        picture = _picture(block, left)
        left -= 0 if picture is None else len(picture[1])
        saved = trial is not None and _data(block) is not None
        shown.append(_block(block, trial) if picture is None else _image(*picture))
        if saved:
            shown.append(element("p", _link("Save this part", trial or 0, f"part-{index}"), class_="faint"))
    if len(result.content) > MOST_BLOCKS:
        shown.append(element("p", f"{len(result.content) - MOST_BLOCKS} more parts are not shown."))
    if once.structured is not None:
        label = "structured content" if shown else "result"
        shown += [len(shown) > 0 and element("h3", "Structured"), _json(once.structured, label, trial)]
    return shown or element("p", "The result is empty.", class_="empty")


def message_block(block: Block) -> Child:
    """One part of a prompt or a resource."""
    picture = _picture(block, LARGEST_PICTURES)
    return _block(block, None) if picture is None else _image(*picture)


def _picture(block: Block, left: int) -> tuple[str, bytes] | None:
    if not isinstance(block, Image | Embedded) or block.mime_type not in PICTURES or not block.data:
        return None
    return (block.mime_type, block.data) if len(block.data) <= left else None


def _image(mime: str, data: bytes) -> Element:
    url = f"data:{mime};base64,{b64encode(data).decode('ascii')}"
    return element("img", src=url, alt=f"a picture from the tool, {mime}", class_="picture")


def _block(block: Block, trial: int | None) -> Child:
    match block:
        case Text():
            return _text(block.text, "text from the tool", trial)
        case Image() | Audio():
            kind = "picture" if isinstance(block, Image) else "sound"
            return _line(f"a {kind}, {block.mime_type}, {human_size(len(block.data))}, not shown")
        case ResourceLink():
            return _line(f"a link to {block.uri} ({block.title or block.name})")
        case Embedded(text=str() as text):
            return [_line(f"the resource {block.uri}"), _text(text, "text of the resource", trial)]
        case Embedded():
            size = human_size(len(block.data or b""))
            return _line(f"the resource {block.uri}, {block.mime_type or 'binary'}, {size}, not shown")


def _line(text: str) -> Element:
    return element("p", text, class_="faint breakable")


def _text(text: str, label: str, trial: int | None) -> Child:
    """A text as it is; JSON is laid out."""
    laid_out = _laid_out(text)
    return _shortened(text if laid_out is None else laid_out, label, trial)


def _laid_out(text: str) -> str | None:
    if text.lstrip()[:1] not in ("{", "[") or len(text) > LONGEST_SHOWN:
        return None
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return as_json(value) if is_object(value) or is_array(value) else None


def _json(value: JSON, label: str, trial: int | None = None) -> Child:
    return _shortened(as_json(value), label, trial)


def _shortened(text: str, label: str, trial: int | None) -> Child:
    rest = len(text) - LONGEST_SHOWN
    note = f"{rest:,} more characters are not shown. "
    more = None if trial is None else _link("Save all of it", trial, "json")
    return [
        element("pre", text[:LONGEST_SHOWN], tabindex=0, aria_label=label, class_="breakable"),
        rest > 0 and element("p", note, more, class_="faint"),
    ]


# The same call elsewhere


def copies(config: BusConfig, trial: Trial) -> Element:
    """The call as a command, as a program and as JSON, to be copied."""
    given = (("CLI", as_command(config, trial)), ("Python", as_program(config, trial)))
    given = (*given, ("JSON", as_json({"name": trial.tool, "arguments": dict(trial.arguments)})))
    return element(
        "details",
        element("summary", "Copy as CLI, Python or JSON"),
        [_copy(label, text, f"copy-{label.lower()}-{trial.number}") for label, text in given],
        id=f"copies-{trial.number}",
    )


def _copy(label: str, text: str, key: str) -> Element:
    shown = text if len(text) <= LONGEST_SHOWN else None
    if shown is None:
        return element("p", f"{label}: its arguments are too long to be copied; save the request instead.")
    button = element(
        "button",
        "Copy",
        type="button",
        data_copy=key,
        aria_label=f"Copy as {label}",
        class_="small",
    )
    return element(
        "div",
        element("div", element("h3", label), button, class_="title"),
        element("pre", shown, id=key, tabindex=0, aria_label=f"the call as {label}", class_="breakable"),
        class_="copy",
    )


def as_command(config: BusConfig, trial: Trial) -> str:
    """The call as a command line for a POSIX shell."""
    words = ["toolbus", "call"]
    words += ["--config", str(Path(config.file).absolute())] if config.file else []
    words += ["--profile", config.profile] if config.profile else []
    words += ["--args", json.dumps(dict(trial.arguments))] if trial.arguments else []
    return shlex.join([*words, *(["--"] if trial.tool.startswith("-") else []), trial.tool])


def as_program(config: BusConfig, trial: Trial) -> str:
    """The call as a Python program."""
    source = "" if config.file is None else ascii(str(Path(config.file).absolute()))
    profile = f", profile={config.profile!a}" if config.profile else ""
    arguments = ascii(dict(trial.arguments))
    return (
        "from toolbus import SyncToolbus\n\n"
        f"with SyncToolbus({source}{profile}) as bus:\n"
        f"    result = bus.call({trial.tool!a}, {arguments})\n"
        "    print(result.text)\n"
    )


# Files


def saved_links(trial: Trial) -> Element:
    """Links that save the result."""
    result = trial.result
    text = result is not None and result.text != "" and _link("Save as text", trial.number, "text")
    return element(
        "p", text, " " if text else None, _link("Save as JSON", trial.number, "json"), class_="faint"
    )


def _link(label: str, trial: int, part: str) -> Element:
    # A download, so that the page stays as it is.
    return element(
        "a", label, href=f"tools/result?{urlencode({'trial': trial, 'part': part})}", download=True
    )


async def save_result(console: Console, request: PageRequest) -> Download:
    """A result, or a part of it, as a file."""
    number, part = request.query.get("trial"), request.query.get("part")
    trial = console.trials.get(int(number)) if number.isdecimal() and len(number) < 20 else None
    if trial is None or trial.result is None:
        raise ToolbusError("the result of that call is not kept any more; call the tool again")
    name = f"call-{trial.number}"
    if part == "text":
        content = trial.result.text.encode(errors="replace")
        return Download(name=f"{name}.txt", kind="text/plain; charset=utf-8", content=content)
    if part.startswith("part-") and part[5:].isdecimal() and len(part) < 12:
        return saved_part(trial.result, name, int(part[5:]))
    content = json.dumps(as_sent(trial.result), indent=2, default=repr).encode()
    return Download(name=f"{name}.json", kind="application/json", content=content)


def saved_part(result: ToolResult, name: str, index: int) -> Download:
    """One part of a result as a file."""
    block = result.content[index] if 0 <= index < len(result.content) else None
    text = block.text if isinstance(block, Text | Embedded) else None
    if text is not None:
        content = text.encode(errors="replace")
        return Download(name=f"{name}-{index}.txt", kind="text/plain; charset=utf-8", content=content)
    data = None if block is None else _data(block)
    if data is None:
        raise ToolbusError("there is no such part")
    mime = getattr(block, "mime_type", "") or ""
    # Whatever a server says it is, a browser must not open it as a page of ours.
    file = f"{name}-{index}{_SUFFIXES.get(mime, '.bin')}"
    return Download(name=file, kind="application/octet-stream", content=data)


def _data(block: Block) -> bytes | None:
    return block.data if isinstance(block, Image | Audio | Embedded) else None
