"""The result of a call as HTML: text as text, pictures without scripts in them, anything else as a line."""

import json
from base64 import b64encode

from toolbus.console.html.elements import Child, Element, element
from toolbus.core.text.display import PICTURES
from toolbus.core.values.records import Audio, Block, Embedded, Image, ResourceLink, Text, ToolResult

LONGEST_TEXT = 100_000
"""The characters of a text, or of JSON, that are shown."""
LARGEST_PICTURES = 4 * 1024 * 1024
"""The bytes of all pictures of a result that are shown."""
MOST_BLOCKS = 100


def result_widget(result: ToolResult) -> Child:
    """What a tool returned."""
    shown: list[Child] = []
    left = LARGEST_PICTURES
    for block in result.content[:MOST_BLOCKS]:
        picture = _picture(block, left)
        left -= 0 if picture is None else len(picture[1])
        shown.append(_block(block) if picture is None else _image(*picture))
    if len(result.content) > MOST_BLOCKS:
        shown.append(element("p", f"{len(result.content) - MOST_BLOCKS} more parts are not shown."))
    if result.structured is not None:
        shown += [element("h3", "Structured"), _text(as_json(result.structured))]
    return shown or element("p", "The result is empty.", class_="empty")


def as_json(value: object) -> str:
    """JSON for people, as it is: only what cannot be seen is written out, by the page."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=repr)


def _picture(block: Block, left: int) -> tuple[str, bytes] | None:
    if not isinstance(block, Image | Embedded) or block.mime_type not in PICTURES or not block.data:
        return None
    return (block.mime_type, block.data) if len(block.data) <= left else None


def _image(mime: str, data: bytes) -> Element:
    url = f"data:{mime};base64,{b64encode(data).decode('ascii')}"
    return element("img", src=url, alt=f"a picture from the tool, {mime}", class_="picture")


def _block(block: Block) -> Child:
    match block:
        case Text():
            return _text(block.text)
        case Image() | Audio():
            kind = "picture" if isinstance(block, Image) else "sound"
            return _line(f"a {kind}, {block.mime_type}, {len(block.data):,} bytes, not shown")
        case ResourceLink():
            return _line(f"a link to {block.uri} ({block.title or block.name})")
        case Embedded(text=str() as text):
            return [_line(f"the resource {block.uri}"), _text(text)]
        case Embedded():
            size = f"{len(block.data or b''):,} bytes"
            return _line(f"the resource {block.uri}, {block.mime_type or 'binary'}, {size}, not shown")


def _line(text: str) -> Element:
    return element("p", text, class_="faint")


def _text(text: str) -> Child:
    rest = len(text) - LONGEST_TEXT
    return [
        element("pre", text[:LONGEST_TEXT], tabindex=0, aria_label="text from the tool"),
        rest > 0 and _line(f"{rest:,} more characters are not shown"),
    ]
