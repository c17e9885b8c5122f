"""`toolbus update`: newer versions of servers that came from a registry."""

import asyncio
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, config_command
from toolbus.cli.commands.config.edited import edited_file, save_edited
from toolbus.cli.commands.config.published import asking, registry_of
from toolbus.cli.completion import server_names
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.input.ask import can_ask
from toolbus.cli.input.trust import confirm, trust_written
from toolbus.cli.options import suggested
from toolbus.cli.output.screen import Screen, one_line, short_path, visible
from toolbus.cli.parameters import WriteUnasked
from toolbus.config import BusConfig, ServerConfig
from toolbus.config.editing.edit import with_texts
from toolbus.config.editing.edited import EditedFile
from toolbus.config.editing.save import save_in_project
from toolbus.config.editing.yaml_json import NotEditable
from toolbus.config.registry import (
    LaunchChoice,
    PublishedServer,
    split_origin,
    unpinned,
    updated_package,
    updated_texts,
    version_key,
    with_bundle,
)
from toolbus.config.registry.document import PublishedPackage
from toolbus.config.registry.versions import Texts
from toolbus.core.text.lookalikes import spelled_out as shown
from toolbus.core.values.errors import ServerNotFound, ToolbusError
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from toolbus.cli.commands.safety.comparison import Comparison
    from toolbus.connect.registry import RegistrySource


@config_command
async def update(
    own: Invocation,
    server: Annotated[
        str | None,
        typer.Argument(metavar="SERVER", help="Server to update.", autocompletion=server_names),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only list newer versions; the default without SERVER.")
    ] = False,
    yes: WriteUnasked = False,
) -> CommandResult:
    """Update servers from a registry, or list newer versions.

    An update starts the new version, shows how its tools differ from toolbus.lock, and writes the config and
    the lockfile together after you agree.
    """
    if check and yes:
        raise Usage("--yes and --check cannot be combined; keep one")
    config = own.config
    if server is not None and server not in config.servers:
        raise ServerNotFound(server, list(config.servers))
    source = registry_of(own, edited_file(own))
    if server is None or check:
        if yes:
            raise Usage("--yes needs a server: toolbus update SERVER --yes")
        return await _listed(own.screen, config, source, [server] if server else list(config.servers))
    return await _updated(own, source, config.servers[server], yes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PinnedServer:
    """A server from a registry, and the latest version there."""

    alias: str
    name: str
    version: str
    latest: PublishedServer | None = None
    problem: str = ""

    @property
    def is_newer(self) -> bool:
        """Whether there is a newer version."""
        new = self.latest.version if self.latest else ""
        return bool(new) and version_key(new) > version_key(self.version)

    def document(self) -> JSON:
        latest = self.latest
        return {
            "name": self.name,
            "version": self.version,
            "latest": latest.version if latest else None,
            "newer": self.is_newer,
            "status": latest.status if latest else None,
            "problem": self.problem or None,
        }


async def _listed(
    screen: Screen, config: BusConfig, source: "RegistrySource", aliases: list[str]
) -> CommandResult:
    """Compare the pinned versions with the registry's."""
    origins = [(alias, *split_origin(config.servers[alias].registry or "")) for alias in aliases]
    pinned = [_PinnedServer(alias=alias, name=name, version=v) for alias, name, v in origins if name]
    limit = asyncio.Semaphore(4)

    async def resolved(one: _PinnedServer) -> _PinnedServer:
        async with limit:
            try:
                return replace(one, latest=(await source.named(one.name))[0])
            except ToolbusError as error:
                return replace(one, problem=str(error))

    with asking(screen, source):
        found = await asyncio.gather(*map(resolved, pinned))
    others = [alias for alias, name, _ in origins if not name]

    def lines() -> None:
        for one in found:
            new = shown(one.latest.version) if one.latest else ""
            step = (
                suggested(f"{new} is available: toolbus update {shlex.quote(one.alias)}")
                if one.is_newer
                else "up to date"
            )
            style = "yellow" if one.is_newer or one.problem else "dim"
            said = one_line(one.problem) or step
            if one.latest and one.latest.status != "active":
                said += f"; the registry lists it as {one_line(one.latest.status)}"
            screen.line((visible(one.alias), "bold"), f"  {visible(one.version)}  ", (said, style))
        if others:
            screen.note(f"not from a registry, so not compared: {', '.join(map(visible, others))}")

    document = {
        "registry": source.place,
        "servers": {one.alias: one.document() for one in found},
        "others": list[JSON](others),
    }
    return CommandResult(document, lines, FAILED if any(one.problem for one in found) else 0)


async def _updated(
    own: Invocation, source: "RegistrySource", server: ServerConfig, yes: bool
) -> CommandResult:
    """Start the latest version, show its differences, and write it after the user agrees."""
    from toolbus.cli.commands.safety.comparison import compared, print_comparison

    screen, alias = own.screen, server.alias
    name, version = split_origin(server.registry or "")
    if not name:
        raise Usage(f"server {alias!r} did not come from a registry; edit its version in {own.config.file}")
    with asking(screen, source):
        latest = (await source.named(name))[0]
    current = f"{alias} is up to date: {shown(server.registry or '')}"
    if latest.origin == server.registry and unpinned(server) is None:
        return CommandResult(_document(own, latest, version, written=False), current)
    package = updated_package(server, latest)
    bundle = await _unpacked(source, latest, package)
    texts = updated_texts(server, latest, package, bundle)
    _note_changes(screen, latest, package, server)
    new = _with_texts(server, texts)
    if new == server or version_key(latest.version) < version_key(version):
        return CommandResult(_document(own, latest, version, written=False), current)
    screen.line((visible(alias), "bold"), f"  {shown(version)} -> {shown(latest.version)}")
    runs = shlex.join([new.command, *new.args]) if new.command else new.url or ""
    screen.line(("  runs  ", "dim"), shown(runs))
    started = Invocation(own.settings)
    started.config = own.config.model_copy(update={"servers": {**own.config.servers, alias: new}})
    found = await compared(started, [alias])
    if alias in found.failed:
        raise ToolbusError(
            f"{latest.origin} could not be started: {found.failed[alias]}; nothing was written"
        )
    if found.old is not None:
        if not screen.as_json:
            print_comparison(screen, found)
    else:
        screen.note("there is no lockfile, so its tools are not compared; create one: toolbus lock")
    question = f"Update {alias} to {shown(latest.version)}? [y/N]: "
    agreed = yes or (not screen.as_json and can_ask() and confirm(question))
    document = _document(own, latest, version, written=agreed, found=found)
    if not agreed:
        screen.note("nothing was written; to update without being asked, pass --yes")
        return CommandResult(document, lambda: None, FAILED)
    where = _write(screen, edited_file(own), alias, texts, found)
    return CommandResult(document, f"updated {alias} to {shown(latest.version)} in {where}")


def _note_changes(
    screen: Screen, latest: PublishedServer, package: PublishedPackage | None, server: ServerConfig
) -> None:
    """Print what a person should know about a new version."""
    if latest.status != "active":
        screen.note(f"the registry lists {latest.origin} as {shown(latest.status)}")
    for one in package.environment_variables if package else ():
        if one.is_required and not (one.default or one.value or one.name in server.env):
            screen.note(f"{latest.version} requires {shown(one.name)}, which is not in env")


async def _unpacked(
    source: "RegistrySource", server: PublishedServer, package: PublishedPackage | None
) -> Path | None:
    """The folder of a new bundle's files."""
    if package is None or package.registry_type != "mcpb":
        return None
    choice = LaunchChoice(server=server, kind="mcpb", package=package)
    bundle = with_bundle(choice, await source.download(package.identifier)).bundle
    assert bundle is not None
    bundle.unpack()
    return bundle.folder


def _with_texts(server: ServerConfig, texts: Texts) -> ServerConfig:
    args, env, fields = list(server.args), dict(server.env), dict[str, str]()
    for (key, *rest), text in texts.items():
        match key, rest:
            case "args", [int(index)]:
                args[index] = text
            case "env", [str(name)]:
                env[name] = text
            case _:
                fields[str(key)] = text
    return server.model_copy(update={**fields, "args": tuple(args), "env": env})


def _write(screen: Screen, edited: EditedFile, alias: str, texts: Texts, found: "Comparison") -> str:
    """Write the config and the lockfile, or neither; return where."""
    from toolbus.lock.file import write_lock

    try:
        after = with_texts(edited.text, edited.path, alias, texts)
    except NotEditable as error:
        wanted = tuple(f"  {'.'.join(map(str, at))}: {text}" for at, text in texts.items())
        raise Usage(f"{edited.path} {error.problem}; set in the entry {alias!r}:", wanted) from None
    save_edited(screen, edited, after)
    if found.old is None:
        return str(edited.path)
    try:
        write_lock(found.updated)
    except BaseException:
        save_in_project(edited.path, edited.text.encode())
        if edited.is_own:
            trust_written(screen, edited.path, edited.text.encode())
        raise
    return f"{edited.path} and {short_path(found.path)}"


def _document(
    own: Invocation,
    latest: PublishedServer,
    version: str,
    *,
    written: bool,
    found: "Comparison | None" = None,
) -> JSON:
    changes = [f"{one.label}: {one.status}" for one in found.differences] if found and found.old else []
    return {
        "file": own.config.file,
        "name": latest.name,
        "version": version,
        "latest": latest.version,
        "changes": changes,
        "written": written,
    }
