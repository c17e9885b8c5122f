"""Add servers of a registry, a `server.json` or an `.mcpb` file; and find them.

They show the whole command or URL before anything is unpacked or written. Characters that hide, or look
like another one, are escaped.
"""

import os
import re
import shlex
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from toolbus.cli.command import CommandResult, Invocation
from toolbus.cli.commands.config.edited import (
    NewServer,
    edited_file,
    given_pairs,
    written,
)
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.input.ask import ask, can_ask, termios
from toolbus.cli.input.trust import confirm
from toolbus.cli.options import suggested
from toolbus.cli.output.screen import Screen, about, one_line, short_path, visible
from toolbus.config.editing.edited import EditedFile, referring
from toolbus.config.location import is_mapping
from toolbus.config.model import OFFICIAL_REGISTRY
from toolbus.config.registry import (
    MAX_BUNDLE,
    MAX_DOCUMENT,
    ConvertedEntry,
    LaunchChoice,
    PublishedInput,
    PublishedServer,
    alias_for,
    bundle_choice,
    choices,
    chosen,
    entry,
    missing,
    parsed_document,
    server_json,
    with_bundle,
)
from toolbus.config.secrets.literals import Secret, SecretNames, env_name, env_values, referenced_names
from toolbus.config.target import is_api_document
from toolbus.core.files import read_plain
from toolbus.core.text.lookalikes import spelled_out as shown
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from toolbus.connect.registry import RegistrySource

_BUNDLES = (".mcpb", ".dxt")
_MOST_LISTED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRequest:
    """The arguments of `toolbus add` for a published server."""

    place: str
    """A registry's name, or a file."""
    alias: str | None
    kind: str | None
    inputs: Sequence[str]
    yes: bool
    given: NewServer

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The values of inputs, by name."""
        found: dict[str, tuple[str, ...]] = {}
        given = (("--env", self.given.env, "="), ("--input", self.inputs, "="))
        for option, texts, separator in (*given, ("--header", self.given.headers, r"\s*[:=]\s*")):
            for text in texts:
                for name, value in given_pairs([text], option, separator).items():
                    found[name] = (*found.get(name, ()), value)
        return found


def published_place(name: str, target: Sequence[str]) -> str | None:
    """The registry's name, the `server.json` or the `.mcpb` file to add; None for a URL or a command."""
    if not target:
        is_url = "://" in name
        return None if is_url or not re.search(r"\w", name) else name
    if is_api_document(target[0]):
        return None
    is_place = len(target) == 1 and re.search(
        r"^registry:|(?:^|[/\\])server\.json$|\.(?:mcpb|dxt)$", target[0]
    )
    return target[0] if is_place else None


async def add_published(own: Invocation, request: PublishedRequest) -> CommandResult:
    """Show the server, ask, and write it and its secrets."""
    edited = edited_file(own)
    source = registry_of(own, edited)
    choice = await _choice(own.screen, source, request)
    alias = request.alias or alias_for(choice.server)
    known = edited.servers()
    if alias in known:
        raise Usage(f"{edited.path} already has a server {alias!r}; choose another name with --as ALIAS")
    values = _completed(own.screen, choice, request)
    taken = [referenced_names(one) for one in known.values() if is_mapping(one)]
    names = SecretNames(env_values(edited.path.parent))
    avoid = frozenset[str]().union(*taken)
    found = entry(choice, values, alias=alias, names=names, avoid=avoid)
    config, others = referring(alias, _with_options(found, request), known, names)
    secrets = (*found.secrets, *others)
    warnings = [*found.warnings]
    if not own.screen.as_json:
        _print_review(own.screen, choice, config, secrets, warnings)
    if not (request.yes or _agreed(own.screen, f"Add it to {short_path(edited.path)} as {alias}? [y/N]: ")):
        own.screen.note("nothing was written; to add it without being asked, pass --yes")
        document = {"file": str(edited.path), "server": alias, "entry": config, "written": False}
        return CommandResult({**document, "warnings": list[JSON](warnings)}, lambda: None, FAILED)
    if choice.bundle is not None:
        choice.bundle.unpack()
    done = written(own, edited, alias, config, secrets)
    more: JSON = {"written": True, "warnings": warnings}
    return done._replace(document=cast("dict[str, JSON]", done.document) | more)


async def found_servers(own: Invocation, words: Sequence[str], limit: int) -> CommandResult:
    """Search the registry."""
    screen, source = own.screen, registry_of(own, edited_file(own))
    with asking(screen, source) as watched:
        found = await watched.search(words, limit)

    def lines() -> None:
        for server in found.servers:
            kinds = ", ".join(_kinds(server))
            status = () if server.status == "active" else ((f"  {one_line(server.status)}", "yellow"),)
            screen.line(
                (shown(server.name), "bold cyan"), f"  {shown(server.version)}  ", (kinds, "dim"), *status
            )
            if server.description:
                screen.line(f"    {about(server.description)}")
        if not found.servers:
            screen.note(f"no server in {shown(source.place)} has {' '.join(words)!r} in its name")
        elif not found.is_complete:
            screen.note("there are more; add words, or raise --limit")

    servers: list[JSON] = [
        {
            "name": one.name,
            "version": one.version,
            "description": one.description,
            "kinds": _kinds(one),
            "status": one.status,
        }
        for one in found.servers
    ]
    document: dict[str, JSON] = {"registry": source.place, "query": " ".join(words), "servers": servers}
    document |= {"complete": found.is_complete, "skipped": found.skipped}
    return CommandResult(document, lines, 0 if found.servers else FAILED)


def _kinds(server: PublishedServer) -> list[str]:
    return list(dict.fromkeys(shown(one.kind) for one in choices(server)))


def registry_of(own: Invocation, edited: EditedFile) -> "RegistrySource":
    """The registry that the config names; one that the user has not accepted names none."""
    from toolbus.connect.registry import RegistrySource

    place = edited.registry
    if place != OFFICIAL_REGISTRY and not (edited.is_named or edited.is_own):
        own.screen.note(f"{edited.path} names another registry, and is not trusted; run 'toolbus trust'")
        place = OFFICIAL_REGISTRY
    return RegistrySource(place=place)


@contextmanager
def asking(screen: Screen, source: "RegistrySource") -> "Generator[RegistrySource]":
    """The registry, whose pages are shown on stderr as they are requested."""
    from dataclasses import replace

    text = f"asking {shown(source.place)}"
    with screen.spinner(text) as spinner:

        def show(number: int) -> None:
            spinner.set_text(f"{text}, page {number}")

        yield replace(source, on_page=show)


async def _choice(screen: Screen, source: "RegistrySource", request: PublishedRequest) -> LaunchChoice:
    """The package or remote to use."""
    place = request.place
    if place.endswith(_BUNDLES):
        content, file = _read(place, MAX_BUNDLE)
        return bundle_choice(content, file=file)
    if place.endswith(".json"):
        content, file = _read(place, MAX_DOCUMENT)
        server = server_json(parsed_document(content, file=file), file=file)
    else:
        with asking(screen, source) as watched:
            name = place.removeprefix("registry:")
            server = _only(await watched.named(name), name)
    choice = _picked(screen, server, request.kind)
    if choice.kind != "mcpb":
        return choice
    assert choice.package is not None
    with screen.spinner(f"downloading {shown(choice.package.identifier)}"):
        return with_bundle(choice, await source.download(choice.package.identifier))


def _read(place: str, most: int) -> tuple[bytes, str]:
    """A file's content, and its path for messages."""
    path = Path(os.path.expanduser(place))
    return read_plain(path, most), short_path(path)


def _only(found: Sequence[PublishedServer], place: str) -> PublishedServer:
    if len(found) == 1:
        return found[0]
    listed = [f"  toolbus add {one.name}  {about(one.description)}" for one in found[:_MOST_LISTED]]
    more = [f"  and {len(found) - _MOST_LISTED} more"] if len(found) > _MOST_LISTED else []
    raise Usage(f"{len(found)} servers have the name {place!r}; add one of them:", (*listed, *more))


def _picked(screen: Screen, server: PublishedServer, kind: str | None) -> LaunchChoice:
    """The kind that the user named or picks, or the default."""
    default = chosen(server, kind)
    usable = [one for one in choices(server) if one.problem is None]
    if kind is not None or len(usable) < 2:
        return default
    if screen.as_json or not can_ask():
        others = dict.fromkeys(one.kind for one in usable if one.kind != default.kind)
        step = f"; to choose another, pass {' or '.join(f'--kind {one}' for one in others)}" if others else ""
        screen.note(f"using {shown(default.label)}{step}")
        return default
    print(f"{server.name} can be used in {len(usable)} ways:", file=sys.stderr)
    for number, one in enumerate(usable, start=1):
        print(f"  {number}  {shown(one.label)}", file=sys.stderr)
    while True:
        typed = ask("Which one? [1]: ").strip() or "1"
        if typed.isdecimal() and 0 < int(typed) <= len(usable):
            return usable[int(typed) - 1]


def _completed(
    screen: Screen, choice: LaunchChoice, request: PublishedRequest
) -> Mapping[str, tuple[str, ...]]:
    """The values; the user is asked for those that are missing, or told how to pass them."""
    values = request.values
    lacking = missing(choice, values)
    if lacking and (screen.as_json or not can_ask()):
        words = ["toolbus", "add", request.place, *(["--as", request.alias] if request.alias else ())]
        words += ["--kind", request.kind] if request.kind else []
        for one in lacking:
            value = f"${{{env_name(one.label)}}}" if one.is_secret else "VALUE"
            words += ["--input", f"{one.label}={value}"]
        details = [f"  {shown(one.label)}{_hints(one)}" for one in lacking]
        secret = [one for one in lacking if one.is_secret]
        note = ["put secrets into .env or the environment, not on the command line"] if secret else []
        step = ["then run:" if note else "run:", f"  {suggested(shlex.join(words))}"]
        raise Usage(f"{choice.server.name} needs values:", (*details, *note, *step))
    for one in lacking:
        print(f"{shown(one.label)}{_hints(one)}", file=sys.stderr)
        values[one.label] = (_asked(one),)
    return values


def _hints(one: PublishedInput) -> str:
    """The purpose of a value, in one line."""
    hints = ["secret"] if one.is_secret else []
    hints += [f"one of {', '.join(one.choices)}"] if one.choices else []
    hints += [one.format] if one.format in ("number", "boolean", "filepath") else []
    hints += [f"such as {one.placeholder}"] if one.placeholder else []
    kinds = f" ({shown('; '.join(hints))})" if hints else ""
    return f"{kinds}: {visible(about(one.description))}" if one.description else kinds


def _asked(one: PublishedInput) -> str:
    while True:
        with _unechoed() if one.is_secret else nullcontext():
            typed = ask(f"{shown(one.label)}: ")
        if one.is_secret:
            print(file=sys.stderr)
        if value := typed.rstrip("\r\n").strip():
            return value


@contextmanager
def _unechoed() -> Generator[None]:
    """Keep the terminal from showing what is typed."""
    if termios is None:
        yield
        return
    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    mode = termios.tcgetattr(stdin)
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(stdin, termios.TCSADRAIN, mode)
    try:
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)


def _with_options(found: ConvertedEntry, request: PublishedRequest) -> dict[str, JSON]:
    """The entry with the other options of the command."""
    given, config = request.given, dict(found.config)
    if given.transport is not None:
        raise Usage("--transport is for a URL; a server of a registry or a file has its own")
    if given.cwd is not None:
        if "command" not in config:
            raise Usage("--cwd is for a command, not for a URL")
        config["cwd"] = given.cwd
    if given.auth is not None:
        if "url" not in config:
            raise Usage("--auth is for a URL, and this server is a command")
        config["auth"] = given.auth
    return config


def _agreed(screen: Screen, question: str) -> bool:
    return not screen.as_json and can_ask() and confirm(question)


def _print_review(
    screen: Screen,
    choice: LaunchChoice,
    config: Mapping[str, JSON],
    secrets: Sequence[Secret],
    warnings: Sequence[str],
) -> None:
    """Print the server, its whole command line or URL, and what else it gets."""
    server = choice.server
    screen.line((shown(server.name), "bold"), f"  {shown(server.version)}")
    rows = [("about", about(server.description))] if server.description else []
    rows += review_rows(config)
    if choice.bundle is not None:
        rows += [("unpacks to", str(choice.bundle.folder)), ("SHA-256", choice.bundle.digest)]
    rows += [("secret", f"{one.name} in .env") for one in secrets]
    for label, text in rows:
        screen.line((f"  {label:11}  ", "dim"), shown(text))
    for warning in warnings:
        screen.line((f"  {'warning':11}  {shown(warning)}", "yellow"))


def review_rows(config: Mapping[str, JSON]) -> list[tuple[str, str]]:
    """The command or URL of an entry, with its variables and headers."""
    if "command" in config:
        rows = [("runs", shlex.join([config["command"], *config.get("args", ())]))]
    else:
        rows = [("connects to", config["url"])]
    rows += [("env", f"{name}={text}") for name, text in config.get("env", {}).items()]
    rows += [("header", f"{name}: {text}") for name, text in config.get("headers", {}).items()]
    auth: JSON = config.get("auth")
    rows += [("auth", str(auth) if re.fullmatch(r"oauth|\$\{[^}]*\}", str(auth)) else "***")] if auth else []
    return [*rows, *([("in", config["cwd"])] if "cwd" in config else [])]
