"""A tool call over one session. The steps of a plain call, in order:

1. `View.call` finds the tool in the catalog and makes an `Operation`.
2. `CallPath.run` passes it through observers, hooks, the argument check and guards, if there are any.
3. `ServerRoutes` picks the server, `Link.request` its live session; after a loss it calls again.
4. `call_tool`, here: the call is tracked, so that messages from the server find it, and its deadline begins.
5. `CallSender.send` encodes it, with the stamp that it keeps for each tool.
6. `Peer.send_encoded` writes it, and waits for the future that the response resolves. The transport joins
   the writes of one loop iteration.
7. `plain_result` reads the records directly from the response, and the output is checked.

The SDK then processes solvable errors and responses that are not plain results, without another request. Such
a response needs input, is a task, has content other than text, or is invalid.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import HEADER_MISMATCH, InputResponses

from toolbus.connect.sdk import wire
from toolbus.connect.sdk.fast_call import Outcome
from toolbus.connect.sdk.input_required import InputRequired, TaskStarted
from toolbus.connect.session import ServerSession
from toolbus.core.operation.operation import CallInFlight, Resumed
from toolbus.core.values.elicitation import Pending
from toolbus.core.values.errors import too_many_questions
from toolbus.core.values.records import JSON, TaskState, ToolResult, pending_result


async def call_tool(
    session: ServerSession,
    in_flight: CallInFlight,
    arguments: Mapping[str, JSON],
    timeout: float,
    resumed: Resumed | None = None,
) -> ToolResult | TaskState:
    """Call a tool, or resume a suspended call; the server may turn it into a task."""
    tool = in_flight.tool
    assert tool is not None, "only tools are called"
    what = f"tool {tool!r}"
    with session.calls_in_flight.track(in_flight):
        while True:
            answered = None if resumed is None else await _answered(session, resumed)
            try:
                with session.exchange(what, timeout) as exchange:
                    progress = (
                        in_flight.on_progress
                        if in_flight.max_timeout is None
                        else session.deadlines.extending(
                            exchange, in_flight.max_timeout, in_flight.on_progress
                        )
                    )
                    if session.slots is None:
                        return await _call(session, tool, in_flight, arguments, progress, answered)
                    exchange.delivery.unsent = True
                    if in_flight.clock is not None:
                        in_flight.clock.enter("queue")
                    async with session.slots:
                        exchange.delivery.unsent = None  # from here on the transport knows
                        if in_flight.clock is not None:
                            in_flight.clock.enter("server")
                        return await _call(session, tool, in_flight, arguments, progress, answered)
            except InputRequired as asked:
                pending = _suspended(session, tool, arguments, asked, resumed)
            except TaskStarted as started:
                return session.task_state(what, started.task)
            declined = await session.handler.declined(pending_result(pending))
            if declined is None:
                return pending_result(pending)
            resumed = Resumed(pending=pending, answers=declined)


async def _call(
    session: ServerSession,
    tool: str,
    in_flight: CallInFlight,
    arguments: Mapping[str, JSON],
    progress: ProgressFnT | None,
    answered: "_Answered | None",
) -> ToolResult:
    outcome: Outcome | None = None
    try:
        if answered is None:
            try:
                outcome = await session.sender.send(in_flight, arguments, progress)
            except MCPError as error:
                if error.code != HEADER_MISMATCH:
                    raise
                outcome = error
            else:
                result = wire.plain_result(outcome)
                if result is not None and tool not in session.tasks_only:
                    if session.outputs and not result.is_error:
                        session.check_output(tool, result.structured)
                    return result
        return await _go_on(session, tool, in_flight, arguments, progress, answered, outcome)
    except MCPError as error:
        if not await session.handler.ask_to_visit(session.inner, error):
            raise
        return await _go_on(session, tool, in_flight, arguments, progress, answered, None)


async def _go_on(
    session: ServerSession,
    tool: str,
    in_flight: CallInFlight,
    arguments: Mapping[str, JSON],
    progress: ProgressFnT | None,
    answered: "_Answered | None",
    outcome: Outcome | None,
) -> ToolResult:
    """Let the SDK go on with the outcome of a call, or make the call if there is none."""
    received = session.sender.received
    if outcome is not None:
        received[in_flight] = outcome
    try:
        result = await session.client.call_tool(
            tool,
            dict(arguments),
            progress_callback=progress,
            input_responses=answered.responses if answered else None,
            request_state=answered.state if answered else None,
        )
    finally:
        received.pop(in_flight, None)
    return wire.tool_result(result)


@dataclass(frozen=True, slots=True)
class _Answered:
    """A call that is resumed: the answers to its questions, and the server's state."""

    responses: InputResponses
    state: str | None


async def _answered(session: ServerSession, resumed: Resumed) -> _Answered:
    pending = resumed.pending
    return _Answered(await session.responses(pending.requests, resumed.answers), pending.state)


def _suspended(
    session: ServerSession,
    tool: str,
    arguments: Mapping[str, JSON],
    asked: InputRequired,
    resumed: Resumed | None,
) -> Pending:
    limit = session.handler.question_limit
    rounds = 1 + (resumed.pending.rounds if resumed else 0)
    if rounds > limit:
        raise too_many_questions(session.server, f"tool {tool!r}", limit)
    return Pending(
        server=session.server,
        tool=tool,
        arguments=dict(arguments),
        requests=asked.requests,
        state=asked.state,
        rounds=rounds,
    )
