"""The part of `toolbus check` about a server: its sign-in, the names of its tools and their schemas."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from toolbus.bus.engine.tenant import Tenant
from toolbus.bus.script_tools import examine
from toolbus.cli.output.screen import quoted
from toolbus.cli.sign_in import oauth_client, signs_in_by_itself, tokens_of
from toolbus.config import BusConfig, ServerConfig
from toolbus.config.script_tools.files import script_codes
from toolbus.connect.opening.failure import awaits_client
from toolbus.core.text.display import login_line
from toolbus.core.values.errors import AuthRequired, LoginRequired, SignInFailed, ToolbusError
from toolbus.core.values.records import ToolSpec
from toolbus.shape import Definition, converted
from toolbus.shape.dialects import DIALECTS
from toolbus.shape.naming import template_name

STEPS = {
    "resource metadata": "found",
    "authorization server": "found",
    "client": "known or registered",
    "sign-in": "done",
    "token": "issued",
}
"""The steps in order, and how each one ends."""
_NEXT_STEPS = {
    "resource metadata": "check that the URL is right, and tell the operator of the server",
    "authorization server": "tell the operator of the server, or set auth.issuer",
    "client": "register a client at the authorization server, and set auth.client_id",
}
_MACHINE_STEP = "check the credentials in auth"
"""Nobody signs in there."""


async def failed_step(config: BusConfig, alias: str, error: ToolbusError | None) -> ToolbusError | None:
    """The failure of the step that would keep a person or a client from signing in; else the error."""
    if not isinstance(error, LoginRequired) and not awaits_client(error):
        return error
    try:
        user = error.user if isinstance(error, LoginRequired) else ""
        client = await oauth_client(config, alias, tokens_of(config), user)
        async with asyncio.timeout(config.servers[alias].timeouts.connect):
            await client.discover()
    except SignInFailed as failure:
        return failure
    except (ToolbusError, TimeoutError):
        pass  # what kept the server from being used is reported
    return error


def problem_and_step(error: AuthRequired, server: ServerConfig) -> tuple[str, str]:
    """The problem, and the way to solve it."""
    if error.hint or not isinstance(error, SignInFailed):
        return error.problem.removesuffix(f"; {error.hint}"), error.hint
    if error.step == "store":  # its message ends with the step
        problem, _, step = error.problem.partition("; ")
        return problem, step
    last = _MACHINE_STEP if signs_in_by_itself(server) else f"sign in again: {login_line(error.server)}"
    return error.problem, _NEXT_STEPS.get(error.step, last)


def steps_passed(error: AuthRequired) -> Iterator[tuple[str, str]]:
    """The steps before the one that failed."""
    reached = error.step if isinstance(error, SignInFailed) else "client"
    if reached in STEPS:
        for step, outcome in STEPS.items():
            if step == reached:
                return
            yield step, outcome


LOSSY = ("widened", "permissive")
Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProblem:
    """One problem; the user must fix an error."""

    severity: Severity
    message: str
    fix: str = ""
    stderr: tuple[str, ...] = ()
    """The last lines of the server's stderr."""

    @property
    def tail(self) -> str:
        """The stderr lines, to append to the message."""
        return f"; on stderr: {' | '.join(self.stderr)}" if self.stderr else ""


def name_problems(
    tools: Sequence[ToolSpec], config: BusConfig, server: ServerConfig
) -> Iterator[ToolProblem]:
    """Tools whose name differs from the naming template: invalid, too long, or taken."""
    label = server.alias if server.prefix is None else server.prefix
    for spec in tools:
        if spec.name != template_name(config.naming, label, spec.origin.tool):
            yield ToolProblem(
                severity="info",
                message=f"tool {quoted(spec.origin.tool)} is exposed as {spec.name!r}",
                fix="nothing to do: models accept unique names of up to 64 characters, A-Z a-z 0-9 _ -",
            )


def dialect_problems(tools: Sequence[ToolSpec], asked: str | None) -> Iterator[ToolProblem]:
    """Tools that a provider cannot be offered; for the dialect that is asked for, also what changes in it."""
    for dialect in DIALECTS:
        found: dict[str, Definition] = {}
        for spec in tools:
            try:
                found[spec.name] = converted(spec, dialect)
            except Exception as error:  # finding such a tool is the purpose of this command
                yield ToolProblem(
                    severity="warning",
                    message=f"{dialect}: {spec.name} cannot be converted: {type(error).__name__}: {error}",
                    fix="exclude the tool, or replace its schema with override",
                )
        if dialect != asked:
            continue
        for name, definition in found.items():
            losses = [loss for loss in definition.losses if loss.kind in LOSSY]
            if losses:
                reasons = "; ".join(dict.fromkeys(f"{loss.path or '/'}: {loss.what}" for loss in losses))
                yield ToolProblem(
                    severity="info",
                    message=f"{dialect}: the schema of {name} is simplified: {reasons}",
                    fix="nothing to do: the provider gets a schema it accepts",
                )
        reworded = [name for name, definition in found.items() if definition.grade == "lossless"]
        if reworded:
            yield ToolProblem(
                severity="info",
                message=f"{dialect}: rewritten for this provider: {', '.join(reworded)}",
                fix="nothing to do: the meaning is the same",
            )


async def script_problems(bus: Tenant, config: BusConfig) -> list[ToolProblem]:
    """An error for each script that cannot be read, or must fail."""
    codes, mistakes = script_codes(config)
    found = [
        ToolProblem(severity="error", message=f"{name}: {error.problem}", fix="fix its entry under tools")
        for name, error in mistakes.items()
    ]
    for name, code in codes.items():
        problem, _ = await examine(bus, code)
        if problem is not None:
            lines = problem.splitlines()[1:] or [problem]  # without the heading
            message = f"{name}: {'; '.join(lines)}"
            found.append(ToolProblem(severity="error", message=message, fix=f"fix {code.entry.script}"))
    return found
