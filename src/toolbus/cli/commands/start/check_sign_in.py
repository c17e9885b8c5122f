"""The sign-in of a server in `toolbus check`: which steps work, which one fails, and the next step."""

import asyncio
from collections.abc import Iterator

from toolbus.cli.sign_in import oauth_client, signs_in_by_itself, tokens_of
from toolbus.config import BusConfig, ServerConfig
from toolbus.core.values.errors import AuthRequired, LoginRequired, SignInFailed, ToolbusError, login_line

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
    """The failure of the step that would keep a person from signing in, if there is one; else the error."""
    if not isinstance(error, LoginRequired):
        return error
    try:
        client = await oauth_client(config, alias, tokens_of(config), error.user)
        async with asyncio.timeout(config.servers[alias].timeouts.connect):
            await client.discover()
    except SignInFailed as failure:
        return failure
    except (ToolbusError, TimeoutError):
        pass  # what kept the server from being used is reported
    return error


def problem_and_step(error: AuthRequired, server: ServerConfig) -> tuple[str, str]:
    """What is wrong, and what to do about it."""
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
