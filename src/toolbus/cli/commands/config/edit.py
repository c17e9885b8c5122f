"""`toolbus add`, `remove`, `enable` and `disable`: edit the servers in the config.

Keeps the file's comments, order and layout. A trusted file stays trusted; an untrusted one stays untrusted.
"""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, command
from toolbus.cli.completion import all_server_names
from toolbus.cli.errors import Usage
from toolbus.cli.input.trust import is_trusted, trust_written
from toolbus.cli.listing_cache import known_tools
from toolbus.cli.options import suggested
from toolbus.cli.output.screen import Screen, picked, short_path, visible
from toolbus.config import find_config, load_server
from toolbus.config.editing.edit import (
    new_document,
    servers_in,
    tool_patterns,
    with_pattern,
    with_servers,
    with_switch,
    without_exclude,
    without_server,
)
from toolbus.config.editing.save import save_in_project
from toolbus.config.editing.yaml_json import NotEditable
from toolbus.config.find import DOTENV, named_config
from toolbus.config.hosts.read import document_in, read_content
from toolbus.config.load import config_in
from toolbus.config.location import is_mapping, near_miss
from toolbus.config.secrets.literals import (
    Secret,
    SecretNames,
    add_secrets,
    env_values,
    referenced_names,
    with_references,
)
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

OAUTH = "oauth"
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewServer:
    """The arguments of `toolbus add`."""

    target: Sequence[str]
    """A URL, or a command and its arguments."""
    env: Sequence[str]
    headers: Sequence[str]
    auth: str | None
    """`oauth`, or a token."""
    transport: str | None
    cwd: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedFile:
    """The file to edit, before the change."""

    path: Path
    text: str = ""
    is_named: bool
    """Whether the user named it; such a file needs no trust."""
    is_own: bool
    """Whether all of its content is trusted or the user's own; it is then trusted after the edit, too."""

    @property
    def is_blank(self) -> bool:
        """Whether it is empty, apart from comments."""
        return all(not line.strip() or line.lstrip().startswith("#") for line in self.text.splitlines())

    def servers(self) -> Mapping[str, JSON]:
        """Its server entries by alias."""
        return {} if self.is_blank else servers_in(self.text, self.path)


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


@command
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
            metavar="URL | -- COMMAND", help="The server's URL; or after --, its command and arguments."
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="KEY=VALUE", help="Environment variable for the command; repeatable."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="KEY=VALUE", help="HTTP header for the URL; repeatable."),
    ] = None,
    auth: Annotated[
        str | None,
        typer.Option(
            "--auth",
            metavar="oauth|TOKEN",
            help="How to sign in to the URL: oauth for a sign-in page, or a token such as '${TOKEN}'.",
        ),
    ] = None,
    transport: Annotated[
        str | None,
        typer.Option(
            "--transport", metavar="NAME", help="streamable-http or sse; default: based on the URL."
        ),
    ] = None,
    cwd: Annotated[
        str | None, typer.Option("--cwd", metavar="DIR", help="Working directory of the command.")
    ] = None,
    alias: Annotated[
        str | None,
        typer.Option("--as", metavar="ALIAS", help="Another name for a server of the registry or a file."),
    ] = None,
    input: Annotated[  # noqa: A002  the name of the option
        list[str] | None,
        typer.Option("--input", metavar="KEY=VALUE", help="Value that such a server needs; repeatable."),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option("--kind", metavar="KIND", help="Which of its packages: remote, npm, pypi, oci, ..."),
    ] = None,
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
        from toolbus.cli.commands.config.published import PublishedRequest, add_published

        named = None if place == name else name
        request = PublishedRequest(
            place=place, alias=alias or named, kind=kind, inputs=input or (), yes=yes, given=server
        )
        return await add_published(own, request)
    if alias or input or kind or yes:
        option = "--as" if alias else "--input" if input else "--kind" if kind else "--yes"
        raise Usage(f"{option} is for a server of the registry, a server.json or an .mcpb file")
    return _added(own, name, server)


def published_place(name: str, target: Sequence[str]) -> str | None:
    """The registry's name, the `server.json` or the `.mcpb` file to add; None for a URL or a command."""
    if not target:
        is_url = "://" in name
        return None if is_url or not re.search(r"\w", name) else name
    is_place = len(target) == 1 and re.search(
        r"^registry:|(?:^|[/\\])server\.json$|\.(?:mcpb|dxt)$", target[0]
    )
    return target[0] if is_place else None


def _added(own: Invocation, name: str, server: NewServer) -> CommandResult:
    """Add the server, and move its secrets to `.env`."""
    plain, edited = _entry(name, server), edited_file(own)
    known = edited.servers()
    if name in known:
        raise Usage(
            f"{edited.path} already has a server {name!r}; to replace it, first run: toolbus remove {name}"
        )
    entry, secrets = referring(name, plain, known, env_values(edited.path.parent))
    return written(own, edited, name, entry, secrets)


def written(
    own: Invocation, edited: EditedFile, name: str, entry: Mapping[str, JSON], secrets: Sequence[Secret]
) -> CommandResult:
    """Write a new server and its secrets."""
    screen = own.screen
    trusted = save_edited(screen, edited, text_with_server(edited, name, entry), secrets)
    use = "login" if entry.get("auth") == OAUTH else "tools"
    step = f"toolbus {use} {name}" if trusted or edited.is_named else "toolbus trust"

    def lines() -> None:
        screen.line(visible(f"added {name} to {edited.path}; next: {suggested(step)}"))
        for secret in secrets:
            screen.note(f"{secret.key} is a secret; moved it to {DOTENV}, replaced by ${{{secret.name}}}")
        if secrets and (edited.path.parent / ".git").exists():
            screen.note(f"add {DOTENV} to .gitignore to keep it out of version control")

    document = {
        **edit_facts(edited, name),
        "entry": entry,
        "secrets": [picked(secret, "key name") for secret in secrets],
        "trusted": trusted,
    }
    return CommandResult(document, lines)


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
    edited = _file_with_server(own, name)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToolSwitch:
    """The tools of a server that match a pattern."""

    server: str
    pattern: str

    def __str__(self) -> str:
        return f"{self.server}/{self.pattern}"

    def shadow(self, patterns: Sequence[JSON]) -> str | None:
        """A pattern that matches every tool that this one does."""
        return next((one for one in patterns if isinstance(one, str) and _covers(one, self.pattern)), None)


def _covers(wide: str, pattern: str) -> bool:
    # A text that has a wildcard stands for others, and only `*` is known to match all of these.
    return wide == pattern or (
        fnmatchcase(pattern, wide) and (_WILD.search(pattern) is None or re.search(r"[?\[]", wide) is None)
    )


def _tool_switch(edited: EditedFile, name: str) -> _ToolSwitch | None:
    """The tools that are meant; None if it is a server."""
    servers = edited.servers()
    found = [alias for alias in servers if name.startswith(f"{alias}/")]
    if name in servers or not found:
        return None
    alias = max(found, key=len)
    pattern = name.removeprefix(f"{alias}/")
    if not pattern.strip():
        raise Usage(f"{name!r} names no tool; write such as {alias}/delete_*")
    return _ToolSwitch(server=alias, pattern=pattern)


def _tools_switched(
    own: Invocation, edited: EditedFile, switch: _ToolSwitch, *, enabled: bool
) -> CommandResult:
    """Enable or disable tools; say which ones, and what else decides about them."""
    word = "enabled" if enabled else "disabled"
    try:
        after, cause, note = (_with_tools if enabled else _without_tools)(edited, switch)
    except NotEditable as error:
        raise Usage(f"{edited.path} {error.problem}: change exclude in the entry {switch.server!r}") from None
    changed = after != edited.text
    known = known_tools(str(edited.path.absolute()), switch.server)
    tools = [tool for tool in known if fnmatchcase(tool, switch.pattern)]
    trusted = save_edited(own.screen, edited, after) if changed else edited.is_own

    def lines() -> None:
        line = f"{word} {switch} in {edited.path}" if changed else f"{switch} is already {word}{cause}"
        own.screen.line(visible(line))
        if note:
            own.screen.note(note)
        if tools:
            own.screen.note(f"tools that match: {', '.join(tools)}")
        elif known:
            hint = near_miss(switch.pattern, known)
            own.screen.note(f"no tool of {switch.server} matches {switch.pattern!r}{hint}")

    facts = {**edit_facts(edited, switch.server), "pattern": switch.pattern, "tools": tools}
    return CommandResult({**facts, "enabled": enabled, "changed": changed, "trusted": trusted}, lines)


def _without_tools(edited: EditedFile, switch: _ToolSwitch) -> tuple[str, str, str]:
    """The text in which these tools are excluded; or the same one, and what already does that."""
    entry = edited.servers()[switch.server]
    (_, include), (key, exclude) = tool_patterns(entry, "include"), tool_patterns(entry, "exclude")
    if (shadow := switch.shadow(exclude)) is not None:
        return edited.text, "" if shadow == switch.pattern else f", by {shadow!r} in {key}", ""
    is_listed = any(not isinstance(one, str) or fnmatchcase(switch.pattern, one) for one in include)
    if include and not is_listed and _WILD.search(switch.pattern) is None:
        return edited.text, ", because include lists other tools", ""
    return with_pattern(edited.text, edited.path, switch.server, "exclude", switch.pattern), "", ""


def _with_tools(edited: EditedFile, switch: _ToolSwitch) -> tuple[str, str, str]:
    """The text in which this pattern is not excluded, and a note about what still disables it."""
    entry = edited.servers()[switch.server]
    (_, include), (key, exclude) = tool_patterns(entry, "include"), tool_patterns(entry, "exclude")
    after, note = edited.text, ""
    shadow = switch.shadow([one for one in exclude if one != switch.pattern])
    if shadow is not None:
        note = f"{shadow!r} in {key} still disables it; to enable all of that: toolbus enable "
        note += f"{switch.server}/{shadow}"
    if switch.pattern in exclude:
        after = without_exclude(after, edited.path, switch.server, switch.pattern)
    elif shadow is not None:
        raise Usage(f"{switch}: {note}")
    if include and switch.shadow(include) is None:
        after = with_pattern(after, edited.path, switch.server, "include", switch.pattern)
    for one in document_in(edited.text.encode(), edited.path).get("exclude") or ():
        if isinstance(one, str) and _covers(one, str(switch)):
            note = note or f"{one!r} in exclude for all servers still disables it"
    return after, "", note


def edit_facts(edited: EditedFile, name: str) -> dict[str, JSON]:
    return {"file": str(edited.path), "server": name}


def _entry(name: str, server: NewServer) -> dict[str, JSON]:
    """The server's config entry; raises `Usage` or `ConfigError` if it is invalid."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise Usage(f"invalid server name {name!r}; use letters, digits, '_', '-' and '.'")
    if not server.target:
        raise Usage(
            f"missing a URL or a command for {name!r}; run toolbus add {name} https://..., "
            f"or toolbus add {name} -- COMMAND"
        )
    first, *rest = server.target
    entry = _remote(name, first, rest, server) if "://" in first else _local(first, rest, server)
    load_server(entry, alias=name)
    return entry


def referring(
    name: str, plain: Mapping[str, JSON], known: Mapping[str, JSON], env: dict[str, str]
) -> tuple[dict[str, JSON], Sequence[Secret]]:
    """The entry with references for its secrets, under names that the other entries do not use."""
    referred = (referenced_names(entry) for entry in known.values() if is_mapping(entry))
    token = plain.get("auth")
    is_token = token not in (None, OAUTH)
    entry, secrets = with_references(
        name,
        {key: value for key, value in plain.items() if key != "auth"}
        | ({"auth": {"token": token}} if is_token else {}),
        SecretNames(env),
        avoid=frozenset[str]().union(*referred),
    )
    if token is not None:
        entry["auth"] = entry["auth"]["token"] if is_token else token
    return entry, secrets


def _remote(name: str, url: str, rest: Sequence[str], server: NewServer) -> dict[str, JSON]:
    if rest:
        raise Usage(
            f"unexpected {rest[0]!r} after the URL; to add a command, run toolbus add {name} -- COMMAND"
        )
    if server.env or server.cwd:
        raise Usage(f"{'--env' if server.env else '--cwd'} is for a command, not for a URL")
    entry: dict[str, JSON] = {"transport": server.transport} if server.transport else {}
    entry["url"] = url
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
    is_host = not args and re.match(r"(?:[\w-]+(?:\.[\w-]+)+(?::\d+)?|[\w-]+:\d+)(?:/|$)", command)
    if is_host and shutil.which(command) is None and not Path(command).exists():
        raise Usage(f"{command!r} is not a command on this machine; a URL starts with http:// or https://")
    entry: dict[str, JSON] = {"command": command}
    if args:
        entry["args"] = list(args)
    if server.env:
        entry["env"] = given_pairs(server.env, "--env", "=")
    return {**entry, "cwd": server.cwd} if server.cwd else entry


def given_pairs(given: Sequence[str], option: str, separator: str) -> dict[str, JSON]:
    pairs: dict[str, JSON] = {}
    for text in given:
        key, *value = re.split(separator, text, maxsplit=1)
        if not key or not value:
            raise Usage(f"{option} takes KEY=VALUE, not {text.partition('=')[0]!r}")
        pairs[key] = value[0]
    return pairs


def edited_file(own: Invocation) -> EditedFile:
    """The config in use, or a new file."""
    named = own.settings.config or named_config()
    path = named
    if path is None:
        try:
            path = find_config()
        except ConfigError:
            path = Path("toolbus.yaml")
    if path.exists():
        content = read_content(path)
        text = content.decode("utf-8", errors="replace")
        edited = EditedFile(
            path=Path(short_path(path)), text=text, is_named=named is not None, is_own=is_trusted(path)
        )
        if not edited.is_blank:
            document_in(content, path)
        return edited
    is_own = not (path.parent / DOTENV).exists()
    return EditedFile(path=Path(short_path(path)), is_named=named is not None, is_own=is_own)


def _file_with_server(own: Invocation, name: str) -> EditedFile:
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
        close = near_miss(name, servers)
        listed = f"; known servers: {', '.join(servers) or 'none'}"
        raise Usage(f"no server {name!r} in {edited.path}{close or listed}")
    return edited


def _file_of(own: Invocation, name: str) -> str | None:
    """The other file of the config that has the server."""
    try:
        return own.untrusted_config.file_of(name) if name in own.untrusted_config.servers else None
    except ConfigError:
        return None


def text_with_server(edited: EditedFile, name: str, entry: Mapping[str, JSON]) -> str:
    """The file's text with the server; if it cannot be edited, `Usage` shows what to paste."""
    if edited.is_blank:
        gap = "" if not edited.text or edited.text.endswith("\n") else "\n"
        return edited.text + gap + new_document(edited.path, {name: entry})
    try:
        return with_servers(edited.text, edited.path, {name: entry})
    except NotEditable as error:
        shown = new_document(edited.path, {name: entry}).splitlines()
        raise Usage(f"{edited.path} {error.problem}:", tuple(shown)) from None


def save_edited(screen: Screen, edited: EditedFile, after: str, secrets: Sequence[Secret] = ()) -> bool:
    """Write the file and the secrets; return whether the file is trusted afterwards."""
    if (
        _config_error(edited.text, edited.path) is None
        and (problem := _config_error(after, edited.path)) is not None
    ):
        raise Usage(f"the change would make {edited.path} invalid: {problem}")
    add_secrets(edited.path.parent, secrets)
    save_in_project(edited.path, after.encode())
    return edited.is_own and trust_written(screen, edited.path, after.encode())


def _config_error(text: str, path: Path) -> str | None:
    """The error in the config, if any."""
    try:
        config_in(document_in(text.encode(), path), path)
    except ConfigError as error:
        return ": ".join(
            filter(None, (error.server and f"server {error.server!r}", error.key, error.problem))
        )
    return None
