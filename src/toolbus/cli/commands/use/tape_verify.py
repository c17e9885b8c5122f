"""`toolbus tape verify`: whether live servers still do what a tape has."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, target_command
from toolbus.cli.commands.use.tape import TapePath
from toolbus.cli.errors import Usage
from toolbus.cli.options import TapeLevel
from toolbus.cli.parameters import ServersOrTargets, positive_duration
from toolbus.core.values.tape_errors import TapeError

if TYPE_CHECKING:
    from toolbus.cli.output.spinner import Spinner
    from toolbus.config import BusConfig
    from toolbus.tape.format import Tape
    from toolbus.tape.privacy import Privacy
    from toolbus.tape.verify import TapeVerifier

INTERRUPTED = 130
Level = Annotated[
    TapeLevel,
    typer.Option(
        "--level",
        help="Compare definitions only (schema), also the fields and types of results (shape), or also their "
        "values (result).",
    ),
]
Writes = Annotated[
    bool, typer.Option("--writes", help="Also repeat the calls of tools that are not read-only.")
]
Breaking = Annotated[
    bool, typer.Option("--breaking", help="Exit 1 only for changes that may break a caller.")
]
Ignored = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        metavar="PATH",
        help="Do not compare this part of results, such as structuredContent.at or content.*.text; "
        "repeatable.",
    ),
]
Patterns = Annotated[
    list[str] | None,
    typer.Option(
        "--pattern",
        metavar="PATH=GLOB",
        help="Treat all values of this part of results that match as the same; repeatable.",
    ),
]
EachTimeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", metavar="TIME", parser=positive_duration, help="Time limit for each call, such as 30s."
    ),
]
Report = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Also write a JUnit report, in XML.")
]


@partial(target_command, tapes=False)
async def verify(
    own: Invocation,
    file: TapePath,
    servers: ServersOrTargets = None,
    level: Level = "shape",
    writes: Writes = False,
    breaking: Breaking = False,
    ignore: Ignored = None,
    pattern: Patterns = None,
    timeout: EachTimeout = None,
    junit: Report = None,
) -> CommandResult:
    """Repeat a tape's calls on live servers; exit 1 on a change.

    Only read-only calls are repeated: resources, prompts, and tools that the tape and the server mark as
    read-only. The tape answers the questions of servers.

    \b
    toolbus tape verify tape.jsonl
    toolbus tape verify tape.jsonl https://staging.example.com/mcp --level result
    """
    from toolbus.cli.input.tapes import glob_patterns
    from toolbus.cli.output.verification import print_verification, verification_json, write_junit
    from toolbus.tape.matching import Matching
    from toolbus.tape.privacy import Privacy
    from toolbus.tape.verify import TapeVerifier

    if junit is not None and not junit.absolute().parent.is_dir():
        raise Usage(f"--junit {junit}: its folder does not exist; create it first")
    matching = Matching(ignore=tuple(ignore or ()), patterns=glob_patterns(pattern or (), "--pattern"))
    tape, privacy = _tape(file), Privacy(own.config)
    aliases = _aliases(own, tape, privacy, servers or [])
    verifier = TapeVerifier(
        tape, aliases, level=level, writes=writes, timeout=timeout, matching=matching, privacy=privacy
    )
    await _run(own, verifier, _config(own.config, aliases))
    found = verifier.found
    if junit is not None:
        write_junit(found, junit)
    changes = [change for change in found.changes if change.is_breaking or not breaking]
    return CommandResult(
        {"tape": str(file), **verification_json(found)},
        lambda: print_verification(own.screen, file, found),
        INTERRUPTED if found.is_interrupted else int(bool(changes)),
    )


def _tape(file: Path) -> "Tape":
    from toolbus.tape.format import Tape

    try:
        return Tape(file)
    except TapeError as error:
        raise Usage(str(error)) from None  # exit code 1 means that something changed


def _aliases(own: Invocation, tape: "Tape", privacy: "Privacy", named: list[str]) -> Mapping[str, str]:
    """The servers to verify: by their name on the tape, their alias in the config."""
    known = ", ".join(tape.servers) or "none"
    for name in named:
        if name not in tape.servers:
            raise Usage(f"the tape has no server {name!r}; its servers: {known}")
    wanted, live = named or tape.servers, list(own.config.servers)
    if own.settings.target is not None and len(wanted) == len(live) == 1:
        return {wanted[0]: live[0]}  # whatever it was called when it was recorded
    found = {str(privacy.recorded(alias)): alias for alias in live}
    for name in wanted:
        if name not in found and own.settings.target is not None:
            raise Usage(f"the tape has several servers: {known}; name the one to verify after the tape")
        if name not in found:
            raise Usage(
                f"the config has no server {name!r} of the tape; name the servers to verify after the tape, "
                "or pass one with --server"
            )
    return {name: found[name] for name in wanted}


def _config(config: "BusConfig", aliases: Mapping[str, str]) -> "BusConfig":
    """The servers as the tape knows them, without the config's shaping; its policy holds."""
    from toolbus.tape.use import unshaped

    servers = {alias: config.servers[alias] for alias in aliases.values()}
    plain = unshaped(config.model_copy(update={"servers": servers}))
    now = {alias: server.model_copy(update={"lazy": False}) for alias, server in plain.servers.items()}
    kept = {"policy": config.policy, "audit": config.audit, "store": config.store, "keeps_listings": False}
    return plain.model_copy(update={"servers": now, **kept})


async def _run(own: Invocation, verifier: "TapeVerifier", config: "BusConfig") -> None:
    """Start the servers, and repeat the calls."""
    from toolbus.state.stderr_log import kept_stderr

    total = len(verifier.repeated)
    with kept_stderr(config.file), own.screen.spinner("starting " + ", ".join(config.servers)) as spinner:
        from toolbus.bus.toolbus import Toolbus

        bus = Toolbus(
            config, interactions=verifier.answers.interactions, observers=[verifier.outcome], record=False
        )
        async with bus:
            await bus.wait_ready()
            await verifier.run(bus, partial(_show, spinner, total))


def _show(spinner: "Spinner", total: int, done: int) -> None:
    spinner.set_text(f"call {done} of {total}")
    spinner.set_progress(done, total)
