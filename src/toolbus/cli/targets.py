"""Servers that the user names on the command line: the config of a command that uses no config file.

A typed URL, command or Python file is used as it is. Someone else wrote a server.json, a bundle or the entry
of a registry: its server is shown first, and used after the user agrees.
"""

import asyncio
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolbus.cli.command import Invocation
from toolbus.cli.commands.config.edit import edited_file, given_pairs, referring, written
from toolbus.cli.errors import Usage
from toolbus.cli.input.ask import can_ask
from toolbus.cli.input.trust import confirm
from toolbus.cli.options import TargetOptions, repeat_target
from toolbus.cli.output.review import print_review
from toolbus.cli.output.screen import Screen, styled
from toolbus.config import BusConfig
from toolbus.config.hosts.dialects import has_container
from toolbus.config.load import config_in, load_server, require_usable
from toolbus.config.location import is_list, is_mapping
from toolbus.config.registry import (
    MAX_BUNDLE,
    MAX_DOCUMENT,
    LaunchChoice,
    PublishedServer,
    alias_for,
    bundle_choice,
    chosen,
    entry,
    missing,
    parsed_document,
    server_json,
    with_bundle,
)
from toolbus.config.secrets.literals import Secret, SecretNames, env_values
from toolbus.config.target import REGISTRY, Target, command_target, target_of, typed_entry
from toolbus.config.trust import Candidate
from toolbus.core.files import read_plain
from toolbus.core.text.display import counted
from toolbus.core.text.text import exact
from toolbus.core.values.records import JSON

_HEADER = r"\s*[:=]\s*"
"""Between the name of a header and its value, as in curl or as in an option."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TargetServer:
    """A server of the command line, ready to be used."""

    alias: str
    entry: Mapping[str, JSON]
    """Its config entry, with secrets."""
    to_keep: Mapping[str, JSON]
    """Its entry for a config, with references instead of known secrets."""
    secrets: Sequence[Secret] = ()


def target_config(own: Invocation, options: TargetOptions) -> BusConfig:
    """The config with only these servers; raises `Usage` or `ConfigError` if one cannot be used."""
    targets = list(map(target_of, options.servers))
    if options.command:
        targets.append(command_target(options.command))
    _check(own, options, len(targets))
    repeat_target(_repeated(targets, options), _sign_in_step(targets[0]))
    servers: dict[str, TargetServer] = {}
    for target in targets:
        typed = target.is_typed
        found = _typed(target, options) if typed else _published(own, target, options)
        servers[_free(found.alias, servers)] = found
    if options.save is not None:
        [only] = servers.values()
        _save(own, only)
    entries = {alias: {**one.entry} for alias, one in servers.items()}
    if len(entries) == 1:
        for plain in entries.values():
            plain["prefix"] = ""  # its own names are unique
    return require_usable(config_in({"servers": entries}))


def _check(own: Invocation, options: TargetOptions, count: int) -> None:
    """Raise `Usage` for options that do not go together."""
    if own.settings.config is not None and options.save is None:
        raise Usage("--config and --server cannot be combined; leave out one of them")
    alone = {"--save": options.save, "--header": options.headers, "--env": options.env}
    for option, value in alone.items():
        if value and count > 1:
            raise Usage(f"{option} is for one server, and there are {count}; use one at a time")
    if options.save is not None and not re.fullmatch(r"\w[\w.-]*", options.save):
        raise Usage(f"invalid server name {options.save!r}; use letters, digits, '_', '-' and '.'")


def _free(alias: str, taken: Iterable[str]) -> str:
    known = {*taken}
    names = (alias, *(f"{alias}-{number}" for number in range(2, len(known) + 2)))
    return next(name for name in names if name not in known)


def _typed(target: Target, options: TargetOptions) -> TargetServer:
    """The server that the user has typed."""
    plain, is_url = typed_entry(target), target.kind in ("url", "openapi")
    if options.env and is_url:
        raise Usage("--env is for a command, not for a URL; use --header")
    if options.headers and not is_url:
        raise Usage("--header is for a URL; a command gets its secrets with --env")
    if options.env:
        plain["env"] = given_pairs(options.env, "--env", "=")
    if options.headers:
        plain["headers"] = given_pairs(options.headers, "--header", _HEADER)
    alias = options.save or target.alias
    load_server(plain, alias=alias)
    return TargetServer(alias=alias, entry=plain, to_keep=plain)


def _published(own: Invocation, target: Target, options: TargetOptions) -> TargetServer:
    """The server that a file or a registry names, after the user has agreed."""
    choice = _choice(own, target)
    alias = options.save or alias_for(choice.server)
    pairs = given_pairs(options.env, "--env", "=") | given_pairs(options.headers, "--header", _HEADER)
    values = {name: (value,) for name, value in pairs.items()}
    if lacking := missing(choice, values):
        listed = " ".join(f"--env {shlex.quote(exact(one.label))}=..." for one in lacking)
        raise Usage(f"{target.shown} needs {counted(len(lacking), 'value')}; pass {listed}")
    found = entry(choice, values, alias=alias, names=SecretNames({}))
    for warning in found.warnings:
        own.screen.note(f"warning: {exact(warning)}")
    if not options.yes:
        _review(own.screen, target, alias, found.config)
    if choice.bundle is not None:
        choice.bundle.unpack()
    plain = _with_values(found.config, found.secrets)
    return TargetServer(alias=alias, entry=plain, to_keep=found.config, secrets=found.secrets)


def _choice(own: Invocation, target: Target) -> LaunchChoice:
    """The package or URL to use; MCP bundles are downloaded."""
    if target.kind == "mcpb":
        return bundle_choice(read_plain(Path(target.text), MAX_BUNDLE), file=target.text)
    if target.kind == "server_json":
        document = parsed_document(read_plain(Path(target.text), MAX_DOCUMENT), file=target.text)
        if has_container(document):
            raise Usage(f"{target.text} is a config, not a server.json; pass it with --config")
        server = server_json(document, file=target.text)
    else:
        server = _in_registry(own, target)
    choice = chosen(server)
    if choice.kind != "mcpb" or choice.package is None:
        return choice
    from toolbus.cli.commands.config.published import registry_of

    source = registry_of(own, edited_file(own))
    with own.screen.spinner("downloading"):
        return with_bundle(choice, asyncio.run(source.download(choice.package.identifier)))


def _in_registry(own: Invocation, target: Target) -> PublishedServer:
    """The server of that name in the registry; raises `Usage` if there are several."""
    from toolbus.cli.commands.config.published import asking, registry_of

    with asking(own.screen, registry_of(own, edited_file(own))) as source:
        found = asyncio.run(source.named(target.text.removeprefix(REGISTRY)))
    if len(found) > 1:
        listed = ", ".join(exact(one.name) for one in found[:5])
        raise Usage(f"{len(found)} servers have that name, such as {listed}; name one of them")
    return found[0]


def _with_values(config: Mapping[str, JSON], secrets: Sequence[Secret]) -> dict[str, JSON]:
    """The entry with the secrets in place of the references to them."""
    values = {f"${{{one.name}}}": one.value.replace("${", "$${") for one in secrets}

    def filled(value: JSON) -> JSON:
        if isinstance(value, str):
            return re.sub(r"(?<!\$)\$\{[^}]*\}", lambda found: values.get(found[0], found[0]), value)
        if is_list(value):
            return [filled(one) for one in value]
        return {key: filled(one) for key, one in value.items()} if is_mapping(value) else value

    return {key: filled(value) for key, value in config.items()}


def _review(screen: Screen, target: Target, alias: str, found: Mapping[str, JSON]) -> None:
    """Show what a file or registry names, and ask; raises `Usage` unless the user agrees."""
    from toolbus.core.text.lookalikes import spelled_out as shown

    here = config_in({"servers": {alias: {**found}}}).model_copy(
        update={"folder": Path.cwd(), "reviewed": {}}
    )
    screen.err.print(styled((exact(f"{target.shown} names a server that would use:"), "bold yellow")))
    print_review(screen.err, Candidate(config=here, file=Path(target.text), digests={}), shown)
    if screen.as_json or not can_ask():
        raise Usage(f"nothing was run; if you trust {target.shown}, run it again with --yes")
    if not confirm("Use it? [y/N]: "):
        raise Usage(f"you did not agree to use {target.shown}, so nothing was run")


def _save(own: Invocation, server: TargetServer) -> None:
    """Keep the server in the config, as `toolbus add` does."""
    edited = edited_file(own)
    known = edited.servers()
    if server.alias in known:
        raise Usage(f"{edited.path} already has a server {server.alias!r}; choose another name with --save")
    taken = env_values(edited.path.parent)
    taken |= {one.name: one.value for one in server.secrets}
    config, more = referring(server.alias, server.to_keep, known, SecretNames(taken))
    written(own, edited, server.alias, config, (*server.secrets, *more))
    own.screen.note(f"added {server.alias} to {edited.path}")


def _repeated(targets: Sequence[Target], options: TargetOptions) -> str:
    """The options by which another command uses the same servers; without secrets."""
    words = [
        f" --server {shlex.quote(target.text) if target.shown == target.text else 'URL'}"
        for target in targets
        if target.kind != "command"
    ]
    headers = given_pairs(options.headers, "--header", _HEADER)
    words += [f" --header {shlex.quote(f'{name}=...')}" for name in headers]
    words += [f" --env {shlex.quote(f'{name}=...')}" for name in given_pairs(options.env, "--env", "=")]
    words += [" --yes"] if options.yes else []
    return "".join([*words, *(" -- COMMAND" for target in targets if target.kind == "command")])


def _sign_in_step(target: Target) -> str:
    """The next step if a server wants credentials."""
    shown = shlex.quote(target.shown) if target.kind == "url" and target.shown == target.text else "URL"
    return (
        "pass a credential with --header 'Authorization=Bearer ...', or if it has a sign-in page, run: "
        f"toolbus add {target.alias} {shown} --auth oauth && toolbus login {target.alias}"
    )
