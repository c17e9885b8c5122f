"""`toolbus read`: read one resource, to stdout or to files."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, bus_command
from toolbus.cli.commands.use.listings import list_resources
from toolbus.cli.completion import read_arguments
from toolbus.cli.errors import Usage
from toolbus.cli.input.arguments import texts
from toolbus.cli.input.lookup import NotListed, raise_if_down, servers_down, with_suggestion
from toolbus.cli.listing_cache import template_variables
from toolbus.cli.output import results
from toolbus.cli.output.screen import Screen, visible
from toolbus.cli.terminal import here
from toolbus.core.values.errors import ArgumentsError, ServerRejected
from toolbus.core.values.records import Embedded, ToolResult
from toolbus.core.values.uri_templates import Values, expanded
from toolbus.shape.render import human_size

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus
    from toolbus.config import BusConfig

_PAIR = re.compile(r"[\w.%]+=")
_EXPRESSION = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadRequest:
    """A URI, or a URI template with values; and the server, if it was named."""

    server: str | None
    uri: str
    values: Values | None = None


@partial(bus_command, tapes=True)
async def read(
    own: Invocation,
    first: Annotated[
        str | None,
        typer.Argument(
            metavar="[SERVER] URI",
            help="URI to read; SERVER is optional if only one server has it. Without URI, list the resources "
            "of SERVER, or of all.",
            autocompletion=read_arguments,
        ),
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Values for a URI template; pass the template as URI.",
            autocompletion=read_arguments,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE|DIR", help="Save to this file or folder; never overwrites a file."
        ),
    ] = None,
) -> CommandResult:
    """Read a resource; without URI, list the resources.

    toolbus read docs 'file:///{path}' path=README.md
    """
    if out is not None and here(out).exists() and not here(out).is_dir():
        raise Usage(f"--out {str(out)!r} already exists; pass another file, or a folder")
    if first is None or (not pairs and _is_server(first, own.config)):
        if out is not None:
            raise Usage("--out needs the URI of the resource to save; 'toolbus read' lists them")
        return await list_resources(own, [] if first is None else [first])
    from toolbus.cli.session import command_line

    screen, request = own.screen, _parse_request([first, *(pairs or [])], own.config)
    started = own.selected(() if request.server is None else [request.server])
    async with own.bus(started, asks=True) as bus:
        server = request.server or _find_server(bus, request.uri)
        raise_if_down(bus, server)
        with screen.spinner(f"reading {request.uri}"):
            try:
                parts = await bus.view(caller=command_line()).read_resource(
                    server, request.uri, request.values
                )
            except ServerRejected as error:
                raise with_suggestion(error, request.uri, _uris(bus, server)) from error
    if out is not None:
        parts = tuple(map(_as_blob, parts))
    files: results.SavedFiles = {} if out is None else _save(parts, out)
    whole = ToolResult(content=parts)
    return CommandResult(
        lambda: {"server": server, "uri": request.uri, "content": results.content_json(whole, files)},
        lambda: results.print_result(screen, whole, files) if files else _print(screen, parts),
    )


def _is_server(word: str, config: "BusConfig") -> bool:
    """Whether it names a server, known or not, rather than a URI or template."""
    return word in config.servers or (":" not in word and "{" not in word)


def _parse_request(words: Sequence[str], config: "BusConfig") -> _ReadRequest:
    """Parse `[SERVER] URI [KEY=VALUE]...`; raises `Usage` if a template lacks a value."""
    first, *rest = words
    is_value = bool(rest) and _PAIR.match(rest[0]) is not None
    server = (
        first if first in config.servers or (rest and not is_value and _is_server(first, config)) else None
    )
    uri, *pairs = words if server is None else rest
    given = texts(pairs)
    names = template_variables(uri)
    if not given and not names:
        return _ReadRequest(server=server, uri=uri)
    values = {name: many if len(many) > 1 else many[0] for name, many in given.items()}
    try:
        expanded(uri, values)
    except ArgumentsError as error:
        takes = f"; it takes {' '.join(f'{name}=...' for name in names)}" if names else ""
        raise Usage(f"{uri}: {error.problem}{takes}") from None
    return _ReadRequest(server=server, uri=uri, values=values)


def _find_server(bus: "Toolbus", uri: str) -> str:
    """The only server that lists the URI or has a matching template; raises `NotListed` or `Usage`."""
    if len(bus.servers) == 1:
        return next(iter(bus.servers))
    listing = [alias for alias in bus.servers if uri in _uris(bus, alias)]
    owners = listing or [
        alias
        for alias in bus.servers
        if any(_may_expand_to(item.uri_template, uri) for item in bus.templates(alias))
    ]
    if not owners:
        raise NotListed(
            "resource",
            uri,
            [known for alias in bus.servers for known in _uris(bus, alias)],
            servers_down(bus),
        )
    if len(owners) > 1:
        raise Usage(f"{' and '.join(owners)} have {uri!r}; name the server: toolbus read {owners[0]} ...")
    return owners[0]


def _uris(bus: "Toolbus", server: str) -> list[str]:
    return [item.uri for item in bus.resources(server)] + [
        item.uri_template for item in bus.templates(server)
    ]


def _may_expand_to(template: str, uri: str) -> bool:
    """Whether the literal parts of the template match the URI."""
    return bool(re.fullmatch(".*".join(map(re.escape, _EXPRESSION.split(template))), uri))


def _as_blob(part: Embedded) -> Embedded:
    return part if part.text is None else replace(part, data=_bytes(part.text), text=None)


def _bytes(text: str) -> bytes:
    return text.encode(errors="backslashreplace")


def _save(parts: Sequence[Embedded], out: Path) -> results.SavedFiles:
    """Save one part to the named file; several parts, or into a folder, under their own names."""
    if len(parts) != 1 or here(out).is_dir():
        return results.save_blobs(ToolResult(content=tuple(parts)), out, "resource")
    here(out).parent.mkdir(parents=True, exist_ok=True)
    with here(out).open("xb") as file:
        file.write(parts[0].data or b"")
    return {0: out}


def _print(screen: Screen, parts: Sequence[Embedded]) -> None:
    """Print text unchanged; binary data only if it is the only part and stdout is not a terminal."""
    blob = next((part for part in parts if part.data is not None), None)
    is_terminal = sys.stdout.isatty()
    if blob is not None and blob.data is not None and (is_terminal or len(parts) > 1):
        kind = f"{blob.mime_type}, " if blob.mime_type else ""
        raise Usage(
            f"{blob.uri} is binary ({kind}{human_size(len(blob.data))}); save it with --out "
            + ("FILE" if len(parts) == 1 else "DIR")
        )
    if not parts:
        screen.note("(the resource is empty)")
    for number, part in enumerate(parts, 1):
        text = part.text or ""
        if is_terminal:
            if len(parts) > 1:
                screen.line((visible(f"{part.uri}  {part.mime_type or ''}".rstrip()), "cyan"))
            screen.line(visible(text.removesuffix("\n")))
            continue
        data = _bytes(text) if part.data is None else part.data
        ends = number == len(parts) or data.endswith(b"\n")
        sys.stdout.buffer.write(data if ends else data + b"\n")
    sys.stdout.flush()
