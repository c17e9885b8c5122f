"""`toolbus add`, `remove`, `enable` and `disable`: edit the servers in the config.

Keeps the file's comments, order and layout. A trusted file stays trusted; an untrusted one stays untrusted.
"""

import json
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from toolbus.bus.engine.listings import known_tools
from toolbus.cli.command import CommandResult, Invocation, command
from toolbus.cli.commands.config.edited import (
    NewServer,
    edit_facts,
    edited_file,
    given_pairs,
    save_edited,
    written,
)
from toolbus.cli.commands.config.published import PublishedRequest, add_published, published_place
from toolbus.cli.completion import all_server_names
from toolbus.cli.errors import Usage
from toolbus.cli.help import PlainCommand
from toolbus.cli.output.screen import short_path, visible
from toolbus.config import find_config, load_server
from toolbus.config.editing.edit import (
    with_switch,
    without_server,
)
from toolbus.config.editing.edited import OAUTH, EditedFile, name_problem, referring
from toolbus.config.editing.switch import NotSwitched, ToolSwitch
from toolbus.config.editing.yaml_json import NotEditable
from toolbus.config.location import near_miss, near_tool
from toolbus.config.secrets.literals import SecretNames, env_values
from toolbus.config.target import command_target, is_api_document, target_of, typed_entry
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

_Env = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="KEY=VALUE", help="Environment variable for the command; repeatable."),
]
_Header = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="KEY=VALUE", help="HTTP header for the URL; repeatable."),
]
_Auth = Annotated[
    str | None,
    typer.Option(
        "--auth",
        metavar="oauth|TOKEN",
        help="How to sign in to the URL: oauth for a sign-in page, or a token such as '${TOKEN}'.",
    ),
]
_Transport = Annotated[
    str | None,
    typer.Option("--transport", metavar="NAME", help="streamable-http or sse; default: based on the URL."),
]
_Alias = Annotated[
    str | None,
    typer.Option("--as", metavar="ALIAS", help="Another name for a server of the registry or a file."),
]
_Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="KEY=VALUE", help="Value that such a server needs; repeatable."),
]
_Kind = Annotated[
    str | None,
    typer.Option("--kind", metavar="KIND", help="Which of its packages: remote, npm, pypi, oci, ..."),
]
_Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The server's name in the config.", autocompletion=all_server_names),
]
_Switched = Annotated[
    str,
    typer.Argument(
        metavar="SERVER[/PATTERN]",
        help="A server in the config, or some of its tools: github/delete_*.",
        autocompletion=all_server_names,
    ),
]


class _AddCommand(PlainCommand):
    """`toolbus add`, whose command comes after `--`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words, and refuse several that are no command and do not come after `--`."""
        has_dashes = "--" in args
        rest = super().parse_args(ctx, args)
        first, *more = ctx.params.get("target") or ("",)
        if more and not has_dashes and "://" not in first and shutil.which(first) is None:
            name = ctx.params["name"]
            raise Usage(f"{first!r} is no program; to add a command, run: toolbus add {name} -- COMMAND")
        return rest


@partial(command, cls=_AddCommand)
async def add(
    own: Invocation,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A name for the server; alone, a server of the registry, a server.json or an .mcpb file.",
        ),
    ],
    target: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="URL | FILE | -- COMMAND",
            help="URL, Python file or OpenAPI document; or after --, a command.",
        ),
    ] = None,
    env: _Env = None,
    header: _Header = None,
    auth: _Auth = None,
    transport: _Transport = None,
    cwd: Annotated[
        str | None, typer.Option("--cwd", metavar="DIR", help="Working directory of the command.")
    ] = None,
    alias: _Alias = None,
    input: _Inputs = None,  # noqa: A002  the name of the option
    kind: _Kind = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Add such a server without being asked.")] = False,
) -> CommandResult:
    """Add a server to the config; create the config if needed.

    \b
    toolbus add io.github.user/thing
    toolbus add search https://example.com/mcp --header 'X-Api-Key=${SEARCH_KEY}'
    toolbus add linear https://mcp.linear.app/mcp --auth oauth
    toolbus add files -- npx -y @modelcontextprotocol/server-filesystem .
    """
    server = NewServer(
        target=target or (), env=env or (), headers=header or (), auth=auth, transport=transport, cwd=cwd
    )
    place = published_place(name, server.target)
    if place is not None:
        named = None if place == name else name
        request = PublishedRequest(
            place=place, alias=alias or named, kind=kind, inputs=input or (), yes=yes, given=server
        )
        return await add_published(own, request)
    if alias or input or kind or yes:
        option = "--as" if alias else "--input" if input else "--kind" if kind else "--yes"
        raise Usage(f"{option} is for a server of the registry, a server.json or an .mcpb file")
    return _added(own, name, server)


def _added(own: Invocation, name: str, server: NewServer) -> CommandResult:
    """Add the server, and move its secrets to `.env`."""
    plain, edited = _entry(name, server), edited_file(own)
    known = edited.servers()
    if name in known:
        raise Usage(
            f"{edited.path} already has a server {name!r}; to replace it, first run: toolbus remove {name}"
        )
    if isinstance(api := plain.get("openapi"), str) and "://" not in api:
        with suppress(ValueError):  # beside the config, its name is enough
            plain["openapi"] = Path(api).relative_to(edited.path.parent.absolute()).as_posix()
    entry, secrets = referring(name, plain, known, SecretNames(env_values(edited.path.parent)))
    return written(own, edited, name, entry, secrets)


@command
def remove(own: Invocation, name: _Name) -> CommandResult:
    """Remove a server from the config."""
    edited = _file_with_server(own, name)
    try:
        after = without_server(edited.text, edited.path, name)
    except NotEditable as error:
        raise Usage(f"{edited.path} {error.problem}: remove the entry {name!r}") from None
    trusted = save_edited(own.screen, edited, after)
    return CommandResult(
        {**edit_facts(edited, name), "trusted": trusted}, f"removed {name} from {edited.path}"
    )


@command
def enable(own: Invocation, name: _Switched) -> CommandResult:
    """Enable a server in the config.

    With SERVER/PATTERN, enable only these tools: the pattern is taken out of exclude, or
    added to include if there is such a list.
    """
    return _switched(own, name, enabled=True)


@command
def disable(own: Invocation, name: _Switched) -> CommandResult:
    """Disable a server in the config without removing it.

    With SERVER/PATTERN, disable only these tools: the pattern is added to exclude.

    \b
    toolbus disable github/delete_*
    """
    return _switched(own, name, enabled=False)


def _switched(own: Invocation, name: str, *, enabled: bool) -> CommandResult:
    edited = _file_with_server(own, name, or_tool=True)
    if (switch := _tool_switch(edited, name)) is not None:
        return _tools_switched(own, edited, switch, enabled=enabled)
    try:
        after = with_switch(edited.text, edited.path, name, on=enabled)
    except NotEditable as error:
        flag = json.dumps({"disabled": not enabled})[1:-1]
        raise Usage(f"{edited.path} {error.problem}: set {flag} in the entry {name!r}") from None
    changed = after != edited.text
    trusted = save_edited(own.screen, edited, after) if changed else edited.is_own
    word = "enabled" if enabled else "disabled"
    line = f"{word} {name} in {edited.path}" if changed else f"{name} is already {word} in {edited.path}"
    document = {**edit_facts(edited, name), "enabled": enabled, "changed": changed, "trusted": trusted}
    return CommandResult(document, line)


# Single tools of a server


def _tool_switch(edited: EditedFile, name: str) -> ToolSwitch | None:
    """The tools that are meant; None if it is a server."""
    try:
        return ToolSwitch.of(edited, name)
    except NotSwitched as error:
        raise Usage(str(error)) from None


def _tools_switched(
    own: Invocation, edited: EditedFile, switch: ToolSwitch, *, enabled: bool
) -> CommandResult:
    """Enable or disable tools; say which ones, and what else decides about them."""
    word = "enabled" if enabled else "disabled"
    known = _known(edited, switch)
    try:
        switched = switch.on(edited, known) if enabled else switch.off(edited)
    except NotEditable as error:
        raise Usage(f"{edited.path} {error.problem}: change exclude in the entry {switch.server!r}") from None
    except NotSwitched as error:
        raise Usage(str(error)) from None
    after, changed = switched.text, switched.text != edited.text
    tools = [tool for tool in known if fnmatchcase(tool, switch.pattern)]
    trusted = save_edited(own.screen, edited, after) if changed else edited.is_own

    def lines() -> None:
        line = (
            f"{word} {switch} in {edited.path}" if changed else f"{switch} is already {word}{switched.cause}"
        )
        own.screen.line(visible(line))
        if switched.note:
            own.screen.note(switched.note)
        if tools:
            own.screen.note(f"tools that match: {', '.join(tools)}")
        elif known:
            hint = near_miss(switch.pattern, known)
            own.screen.note(f"no tool of {switch.server} matches {switch.pattern!r}{hint}")

    facts = {**edit_facts(edited, switch.server), "pattern": switch.pattern, "tools": tools}
    return CommandResult({**facts, "enabled": enabled, "changed": changed, "trusted": trusted}, lines)


def _known(edited: EditedFile, switch: ToolSwitch) -> Sequence[str]:
    """The tools that the server is known to have."""
    return known_tools(str(edited.path.absolute()), switch.server)


def _entry(name: str, server: NewServer) -> dict[str, JSON]:
    """The server's config entry; raises `Usage` or `ConfigError` if it is invalid."""
    if (problem := name_problem(name)) is not None:
        raise Usage(problem)
    first, *rest = server.target
    is_remote = "://" in first or is_api_document(first)
    entry = _remote(name, first, rest, server) if is_remote else _local(first, rest, server)
    load_server(entry, alias=name)
    return entry


def _remote(name: str, url: str, rest: Sequence[str], server: NewServer) -> dict[str, JSON]:
    if rest:
        raise Usage(
            f"unexpected {rest[0]!r} after the URL; to add a command, run toolbus add {name} -- COMMAND"
        )
    if server.env or server.cwd:
        raise Usage(f"{'--env' if server.env else '--cwd'} is for a command, not for a URL")
    entry: dict[str, JSON] = {"transport": server.transport} if server.transport else {}
    entry |= typed_entry(target_of(url)) if is_api_document(url) else {"url": url}
    if server.auth is not None:
        entry["auth"] = OAUTH if server.auth.lower() == OAUTH else server.auth
    if server.headers:
        # Also `:`, as in curl.
        entry["headers"] = given_pairs(server.headers, "--header", r"\s*[:=]\s*")
    return entry


def _local(command: str, args: Sequence[str], server: NewServer) -> dict[str, JSON]:
    if server.headers or server.auth is not None or server.transport not in (None, "stdio"):
        option = "--header" if server.headers else "--transport" if server.auth is None else "--auth"
        raise Usage(f"{option} is for a URL, and {command!r} is not one; a URL starts with https://")
    is_python = re.search(r"\.py(?::\w+)?$", command) is not None and shutil.which(command) is None
    is_host = (
        not args
        and not is_python
        and re.match(r"(?:[\w-]+(?:\.[\w-]+)+(?::\d+)?|[\w-]+:\d+)(?:/|$)", command)
    )
    if is_host and shutil.which(command) is None and not Path(command).exists():
        raise Usage(f"{command!r} is not a command on this machine; a URL starts with http:// or https://")
    if is_python and args:
        raise Usage(f"{command!r} is no program; to run it, put its Python before it: -- python {command}")
    entry = typed_entry(target_of(command) if is_python else command_target((command, *args)))
    if server.env:
        entry["env"] = given_pairs(server.env, "--env", "=")
    return {**entry, "cwd": server.cwd} if server.cwd else entry


def _file_with_server(own: Invocation, name: str, *, or_tool: bool = False) -> EditedFile:
    """The config in use; raises `Usage` if it has no such server."""
    path = own.settings.config or find_config()
    if not path.is_file():
        raise Usage(f"{str(path)!r}: no such file; check the path")
    edited = edited_file(own)
    servers = edited.servers()
    if name not in servers and _tool_switch(edited, name) is None:
        name = name.partition("/")[0]
        if (other := _file_of(own, name)) is not None:
            raise Usage(f"{name!r} is not in {edited.path} but in {short_path(other)}; pass --config {other}")
        close = (near_tool(name, servers) if or_tool else "") or near_miss(name, servers)
        listed = f"; known servers: {', '.join(servers) or 'none'}"
        raise Usage(f"no server {name!r} in {edited.path}{close or listed}")
    return edited


def _file_of(own: Invocation, name: str) -> str | None:
    """The other file of the config that has the server."""
    try:
        return own.untrusted_config.file_of(name) if name in own.untrusted_config.servers else None
    except ConfigError:
        return None
