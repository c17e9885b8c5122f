"""Take a call to the server its tool comes from, and bring the result back."""

import inspect
import json
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from toolbus.call.arguments import ArgumentCheck, Checked
from toolbus.call.hooks import Call, Hook, Progress, onion
from toolbus.call.reports import INVALID, TOOL_ERROR, CallReport, Failure, failure_of
from toolbus.call.resource_tools import ResourceTools
from toolbus.call.result_store import READ_RESULT
from toolbus.call.results import Results
from toolbus.call.tasks import TaskPoller
from toolbus.connect import CallInFlight, Link, Session
from toolbus.core.errors import ArgumentsError, ServerDown
from toolbus.core.events import Hub
from toolbus.core.records import JSONObject, Origin, TaskState, ToolResult, ToolSpec
from toolbus.shape import restored


class Caller:
    """Calls tools; knows the links and the hooks, not the catalog."""

    def __init__(
        self,
        links: Mapping[str, Link],
        hub: Hub,
        hooks: Sequence[Hook],
        other: ResourceTools,
        results: Results,
    ) -> None:
        self._links = links
        self._other = other
        self._hub = hub
        self._ids = count(1)
        self._reports: dict[int | None, CallReport] = {}
        """Of the calls under way that somebody listens to, by the ids of their events."""
        self.results = results
        self._checks: dict[tuple[Origin, bool], tuple[JSONObject, ArgumentCheck]] = {}
        self._through = onion(hooks, self._sent)

    async def call(self, call: Call) -> ToolResult:
        """The tool's result; `ToolbusError` if the call could not be made."""
        if not self._hub.heard:
            return await self._called(call)
        number = next(self._ids)
        report = self._reports[number] = CallReport(self._hub, number, call.spec.name, call.spec.origin)
        try:
            result = await self._called(replace(call, id=number))
        except BaseException as error:
            report.end(error)
            raise
        else:
            report.end(result)
            return result
        finally:
            del self._reports[number]

    def report_unsent(self, name: str, origin: Origin, failure: Failure) -> None:
        """Report a call that came to its end before it came here."""
        if self._hub.heard:
            CallReport(self._hub, next(self._ids), name, origin).end(failure)

    async def _called(self, call: Call) -> ToolResult:
        if not isinstance(call.arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass what they like
            kind = type(call.arguments).__name__
            raise ArgumentsError(
                f"tool {call.spec.name!r}", f"must be a mapping of names to values, not {kind}"
            )
        for key in call.arguments:
            if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # likewise
                raise ArgumentsError(f"tool {call.spec.name!r}", f"names must be strings, not {key!r}")
        if call.spec.definitions:
            # Not a repair: the names and nulls of a dialect are ours.
            call = replace(call, arguments=restored(call.spec, call.arguments))
        result = await self._through(call)
        if not isinstance(result, ToolResult):  # pyright: ignore[reportUnnecessaryIsInstance]  # a hook's
            raise TypeError(f"a hook returned {type(result).__name__}, not a ToolResult")
        if result.pending is not None:
            # As they were given, so that hooks and overrides see the same again when it is resumed.
            return replace(result, pending=replace(result.pending, arguments=dict(call.arguments)))
        return replace(result, tool=call.spec.name) if result.is_error else result

    async def _sent(self, call: Call) -> ToolResult:
        """The way to the server, inside of the hooks."""
        report = self._reports.get(call.id)
        if report is None:
            progress = call.on_progress
            return await self._through_link(call, None if progress is None else _Reporter(progress))
        report.failure = None
        try:
            result = await self._through_link(call, _Reporter(call.on_progress, report))
        except BaseException as error:
            report.failure = failure_of(error) or Failure("server_failed", str(error))
            raise
        if result.is_error and report.failure is None:
            report.failure = TOOL_ERROR
        return result

    def _rejected(self, call: Call, problem: str) -> ToolResult:
        """The result of a call whose arguments do not fit; it is not sent."""
        if call.id in self._reports:
            self._reports[call.id].failure = INVALID
        return ToolResult.failure(problem)

    async def _through_link(self, call: Call, report: "_Reporter | None") -> ToolResult:
        spec, origin = call.spec, call.spec.origin
        if origin == READ_RESULT.origin:
            asked = self._checked(spec.input_schema, origin, call.arguments)
            if asked.problem is not None:
                return self._rejected(call, asked.problem)
            return self.results.read(asked.arguments)
        if spec.via != "tools/call":
            asked = self._prepared(spec, call.arguments)
            if asked.problem is not None:
                return self._rejected(call, asked.problem)
            return await self._other.run(spec, asked.arguments, call.timeout)
        link = self._links.get(origin.server)
        if link is None:
            raise ServerDown(origin.server, "closed", "it was removed from the bus")
        arguments, repairs = call.arguments, ()
        if link.config.repair:
            prepared = self._prepared(spec, arguments)
            # What is no JSON at all is a mistake of the program, not of a model: sending it says so.
            if prepared.problem is not None and _is_json(arguments):
                problem = f"wrong arguments for {spec.name!r}, nothing was sent: {prepared.problem}"
                return self._rejected(call, problem)
            arguments, repairs = prepared.arguments, prepared.repairs
        else:
            arguments = spec.sent(arguments)
        in_flight = CallInFlight(
            tool=origin.tool,
            call=call.id,
            on_progress=report,
            on_log=call.on_log,
            suspends=call.on_input == "suspend",
            longest=link.config.timeouts.longest if call.longest is None else call.longest,
        )
        result = await self._answered(link, call, in_flight, arguments)
        return result.noting(repaired=list(repairs)) if repairs else result

    async def _answered(
        self, link: Link, call: Call, in_flight: CallInFlight, arguments: JSONObject
    ) -> ToolResult:
        """The result of one call on its link; a task that it becomes is followed to its end."""
        resumed = call.resumed
        if resumed is not None and resumed.pending.task is not None:
            return await TaskPoller(link, in_flight, call, arguments).resumed(resumed)

        def send(session: Session, timeout: float) -> Awaitable[ToolResult | TaskState]:
            waited = None if resumed is None else (resumed.pending, resumed.answers)
            return session.call_tool(in_flight, arguments, timeout, waited)

        timeout = link.config.timeouts.call if call.timeout is None else call.timeout
        answer = await link.request(send, timeout, repeatable=_repeatable(call.spec), recover=call.recover)
        if isinstance(answer, ToolResult):
            return answer
        return await TaskPoller(link, in_flight, call, arguments).to_the_end(answer)

    def _prepared(self, spec: ToolSpec, arguments: JSONObject) -> Checked:
        """The arguments as the server takes them, mended; a complaint is in the words of the model."""
        first = self._checked(spec.input_schema, spec.origin, arguments)
        if first.problem is not None or (not spec.maps and spec.server_schema is None):
            return first
        schema = spec.input_schema if spec.server_schema is None else spec.server_schema
        last = self._checked(schema, spec.origin, spec.sent(first.arguments), of_server=True)
        return replace(last, repairs=first.repairs + last.repairs)

    def _checked(
        self, schema: JSONObject, origin: Origin, arguments: JSONObject, *, of_server: bool = False
    ) -> Checked:
        known, check = self._checks.get((origin, of_server), (None, None))
        if check is None or known is not schema:
            check = ArgumentCheck(schema)
            self._checks[origin, of_server] = schema, check
        return check.checked(arguments)


def _is_json(arguments: JSONObject) -> bool:
    try:
        json.dumps(dict(arguments))
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _repeatable(spec: ToolSpec) -> bool:
    """Whether the server says that a second call does no harm."""
    return spec.annotations.get("readOnlyHint") is True or spec.annotations.get("idempotentHint") is True


class _Reporter:
    """Hands the progress of a call to its caller and to the listeners."""

    def __init__(self, told: Progress | None, report: CallReport | None = None) -> None:
        self._told = told
        self._report = report

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        if self._report is not None:
            self._report.progress(progress, total, message)
        if self._told is not None:
            waiting = self._told(progress, total, message)
            if inspect.isawaitable(waiting):
                await waiting
