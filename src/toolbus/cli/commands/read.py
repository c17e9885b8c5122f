"""`toolbus read`: one resource, to stdout or into files."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.cli.completion.listings import variables
from toolbus.cli.input.arguments import texts
from toolbus.cli.input.finding import NotListed, down, raise_if_down, with_hint
from toolbus.cli.input.questions import interactions
from toolbus.cli.options import Settings
from toolbus.cli.outcome import Usage
from toolbus.cli.output import results
from toolbus.cli.output.screen import Screen, visible
from toolbus.cli.session import checked, configured, opened
from toolbus.cli.session import run as run_async
from toolbus.config import BusConfig
from toolbus.core.errors import ArgumentsError, CallRejected
from toolbus.core.records import Embedded, ToolResult
from toolbus.core.uri_templates import Values, expanded
from toolbus.shape.render import size

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus

_PAIR = re.compile(r"[\w.%]+=")
_EXPRESSION = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What to read: an address, or a template with its values; of a server, or of the one that has it."""

    server: str | None
    uri: str
    values: Values | None = None


def run(settings: Settings, words: Sequence[str], out: Path | None) -> int:
    """Read it, and print it or save it."""
    if out is not None and out.exists() and not out.is_dir():
        raise Usage(f"--out {str(out)!r} already exists; pass another file, or a folder")
    return run_async(lambda: _read(settings, words, out))


async def _read(settings: Settings, words: Sequence[str], out: Path | None) -> int:
    screen, config = Screen(settings), configured(settings)
    wanted = _wanted(words, config)
    started = checked(config, () if wanted.server is None else [wanted.server])
    async with opened(screen, config, started, interactions=interactions(screen)) as bus:
        server = wanted.server or _owner(bus, wanted.uri)
        raise_if_down(bus, server)
        with screen.moving(f"reading {wanted.uri}"):
            try:
                parts = await bus.read_resource(server, wanted.uri, wanted.values)
            except CallRejected as error:
                raise with_hint(error, wanted.uri, _uris(bus, server)) from error
    if out is not None:
        parts = tuple(map(_as_blob, parts))
    files: results.Saved = {} if out is None else _saved(parts, out)
    if screen.as_json:
        content = results.as_json(ToolResult(content=parts), files)
        screen.json({"server": server, "uri": wanted.uri, "content": content})
    elif files:
        results.show(screen, ToolResult(content=parts), files)
    else:
        _print(screen, parts)
    return 0


def _wanted(words: Sequence[str], config: BusConfig) -> _Wanted:
    """What the words say; `Usage` if a template lacks a value."""
    first, *rest = words
    names_server = ":" not in first and "{" not in first and rest and not _PAIR.match(rest[0])
    server = first if first in config.servers or names_server else None
    if server is not None and not rest:
        raise Usage(f"missing the URI to read from {server!r}; run 'toolbus resources {server}' to list them")
    uri, *pairs = words if server is None else rest
    given = texts(pairs)
    names = variables(uri)
    if not given and not names:
        return _Wanted(server=server, uri=uri)
    values = {name: many if len(many) > 1 else many[0] for name, many in given.items()}
    try:
        expanded(uri, values)
    except ArgumentsError as error:
        takes = f"; it takes {' '.join(f'{name}=...' for name in names)}" if names else ""
        raise Usage(f"{uri}: {error.problem}{takes}") from None
    return _Wanted(server=server, uri=uri, values=values)


def _owner(bus: "Toolbus", uri: str) -> str:
    """The one server that lists it, or has a template that may be meant; `NotListed` if there is none."""
    if len(bus.servers) == 1:
        return next(iter(bus.servers))
    listing = [alias for alias in bus.servers if uri in _uris(bus, alias)]
    owners = listing or [
        alias
        for alias in bus.servers
        if any(_may_make(item.uri_template, uri) for item in bus.templates(alias))
    ]
    if not owners:
        raise NotListed(
            "resource", uri, [known for alias in bus.servers for known in _uris(bus, alias)], down(bus)
        )
    if len(owners) > 1:
        raise Usage(f"{' and '.join(owners)} have {uri!r}; name the server: toolbus read {owners[0]} ...")
    return owners[0]


def _uris(bus: "Toolbus", server: str) -> list[str]:
    return [item.uri for item in bus.resources(server)] + [
        item.uri_template for item in bus.templates(server)
    ]


def _may_make(template: str, uri: str) -> bool:
    """Whether the fixed parts of a template are those of the address."""
    return bool(re.fullmatch(".*".join(map(re.escape, _EXPRESSION.split(template))), uri))


def _as_blob(part: Embedded) -> Embedded:
    return part if part.text is None else replace(part, data=_bytes(part.text), text=None)


def _bytes(text: str) -> bytes:
    return text.encode(errors="backslashreplace")


def _saved(parts: Sequence[Embedded], out: Path) -> results.Saved:
    """One part is the file that was named; several, or a folder that is there, make files of their names."""
    if len(parts) != 1 or out.is_dir():
        return results.saved(ToolResult(content=tuple(parts)), out, "resource")
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("xb") as file:
        file.write(parts[0].data or b"")
    return {0: out}


def _print(screen: Screen, parts: Sequence[Embedded]) -> None:
    """Text as it is; a blob only where no terminal gets it, and alone."""
    from rich.text import Text as Line

    blob = next((part for part in parts if part.data is not None), None)
    is_terminal = sys.stdout.isatty()
    if blob is not None and blob.data is not None and (is_terminal or len(parts) > 1):
        kind = f"{blob.mime_type}, " if blob.mime_type else ""
        raise Usage(
            f"{blob.uri} is binary ({kind}{size(len(blob.data))}); save it with --out "
            + ("FILE" if len(parts) == 1 else "DIR")
        )
    if not parts:
        screen.note("(the resource is empty)")
    for number, part in enumerate(parts, 1):
        text = part.text or ""
        if is_terminal:
            if len(parts) > 1:
                screen.print(Line(visible(f"{part.uri}  {part.mime_type or ''}".rstrip()), style="cyan"))
            screen.print(Line(visible(text.removesuffix("\n"))))
            continue
        data = _bytes(text) if part.data is None else part.data
        ends = number == len(parts) or data.endswith(b"\n")
        sys.stdout.buffer.write(data if ends else data + b"\n")
    sys.stdout.flush()
