"""Servers that the user names on the command line: the config of a command that uses no config file.

A typed URL, command or Python file is used as it is. What a file or a registry names was written by someone
else: it is shown first, and used after the user agrees.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from toolbus.cli.command import Invocation
from toolbus.cli.commands.config.edit import HEADER, add_entry, check_name, pairs
from toolbus.cli.errors import Usage
from toolbus.cli.input.ask import can_ask
from toolbus.cli.input.trust import confirm
from toolbus.cli.options import TargetOptions, repeat_target
from toolbus.cli.output.review import print_review
from toolbus.cli.output.screen import Screen, exact, styled
from toolbus.config import BusConfig
from toolbus.config.load import config_in, require_usable
from toolbus.config.target import Target, command_target, entry, target_of
from toolbus.config.trust import Candidate
from toolbus.core.values.records import JSON


def target_config(own: Invocation, screen: Screen, options: TargetOptions) -> BusConfig:
    """The config with only these servers; raises `Usage` or `ConfigError` if one cannot be used."""
    targets = list(map(target_of, options.servers))
    if options.command:
        targets.append(command_target(options.command))
    _check(own, options, targets)
    repeat_target(_repeated(targets), _sign_in_step(targets[0]))
    entries: dict[str, dict[str, JSON]] = {}
    for target in targets:
        alias = options.save or _free(target.alias, entries)
        found = _with_options(_entry(target, alias, options), options)
        entries[alias] = found
        if not target.is_typed:
            _review(screen, target, alias, found, yes=options.yes)
    if options.save is not None:
        [plain] = entries.values()
        added = add_entry(own, options.save, plain)
        if callable(added.lines):
            added.lines()
    if len(entries) == 1:
        [only] = entries.values()
        only["prefix"] = ""  # its own names are unique
    return require_usable(config_in({"servers": entries}))


def _check(own: Invocation, options: TargetOptions, targets: Sequence[Target]) -> None:
    """Raise `Usage` for options that do not go together."""
    if own.settings.config is not None and options.save is None:
        raise Usage("--config has no effect on a server that no config has; leave out one of them")
    several = {"--save": options.save, "--header": options.headers, "--env": options.env}
    for option, value in several.items():
        if value and len(targets) > 1:
            raise Usage(f"{option} is for one server, and there are {len(targets)}; use one at a time")
    if options.save is not None:
        check_name(options.save)


def _free(alias: str, taken: Mapping[str, object]) -> str:
    names = (alias, *(f"{alias}-{number}" for number in range(2, len(taken) + 2)))
    return next(name for name in names if name not in taken)


def _entry(target: Target, alias: str, options: TargetOptions) -> dict[str, JSON]:
    if target.is_typed:
        return entry(target)
    raise NotImplementedError(target.kind, alias, options)


def _with_options(plain: dict[str, JSON], options: TargetOptions) -> dict[str, JSON]:
    """The entry with the headers and variables of the command line."""
    is_url = "url" in plain
    if options.env and is_url:
        raise Usage("--env is for a command, not for a URL; use --header")
    if options.headers and not is_url:
        raise Usage("--header is for a URL; a command gets its secrets with --env")
    if options.env:
        plain["env"] = {**plain.get("env", {}), **pairs(options.env, "--env", "=")}
    if options.headers:
        plain["headers"] = {**plain.get("headers", {}), **pairs(options.headers, "--header", HEADER)}
    return plain


def _review(screen: Screen, target: Target, alias: str, found: Mapping[str, JSON], *, yes: bool) -> None:
    """Show what a file or registry names, and ask; raises `Usage` unless the user agrees."""
    if yes:
        return
    here = config_in({"servers": {alias: found}}).model_copy(update={"folder": Path.cwd(), "reviewed": {}})
    screen.err.print(styled((exact(f"{target.shown} names a server that would use:"), "bold yellow")))
    print_review(screen.err, Candidate(config=here, file=Path(target.text), digests={}))
    if screen.as_json or not can_ask():
        raise Usage(f"{target.shown}: nothing was run; if that is what you want, run it again with --yes")
    if not confirm("Use it? [y/N]: "):
        raise Usage(f"{target.shown}: nothing was run; run it again to be asked, or with --yes")


def _repeated(targets: Sequence[Target]) -> str:
    """The option by which another command uses the same servers; without secrets."""
    words = [
        f" --server {shlex.quote(target.text) if target.shown == target.text else 'URL'}"
        for target in targets
        if target.kind != "command"
    ]
    return "".join([*words, *(" -- COMMAND" for target in targets if target.kind == "command")])


def _sign_in_step(target: Target) -> str:
    """What to do if a server wants credentials."""
    shown = shlex.quote(target.shown) if target.kind == "url" and target.shown == target.text else "URL"
    return (
        "pass a credential with --header 'Authorization=Bearer ...', or if it has a sign-in page, run: "
        f"toolbus add {target.alias} {shown} --auth oauth && toolbus login {target.alias}"
    )
