"""Take a call to the server its tool comes from, and bring the result back."""

import inspect
import json
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from toolbus.call.hooks import Call, Hook, Progress, onion
from toolbus.call.kept import READ_RESULT
from toolbus.call.other import OtherTools
from toolbus.call.repair import ArgumentCheck, Checked
from toolbus.call.results import Results
from toolbus.call.tasks import Following
from toolbus.connect import Errand, Link, Session
from toolbus.errors import ArgumentsError, ServerDown, ToolbusError
from toolbus.events import CallEnded, CallStarted, Hub, Progressed
from toolbus.records import JSONObject, Origin, TaskState, ToolResult, ToolSpec
from toolbus.shape import restored


class Caller:
    """Calls tools; knows the links and the hooks, not the catalog."""

    def __init__(
        self, links: Mapping[str, Link], hub: Hub, hooks: Sequence[Hook] = (), other: OtherTools | None = None
    ) -> None:
        self._links = links
        self._other = other
        self._hub = hub
        self._ids = count(1)
        self.results = Results()
        self._checks: dict[tuple[Origin, bool], tuple[JSONObject, ArgumentCheck]] = {}
        self._through = onion(hooks, self._sent)

    async def call(self, call: Call) -> ToolResult:
        """The tool's result; `ToolbusError` if the call could not be made."""
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
        return result

    async def _sent(self, call: Call) -> ToolResult:
        if self._hub.heard:
            return await self._told(call)
        progress = call.on_progress
        return await self._through_link(call, None if progress is None else _Reporter(call, progress))

    async def _through_link(
        self, call: Call, report: "_Reporter | None", number: int | None = None
    ) -> ToolResult:
        spec, origin = call.spec, call.spec.origin
        if origin == READ_RESULT.origin:
            asked = self._checked(spec.input_schema, origin, call.arguments)
            if asked.problem is not None:
                return ToolResult.failure(asked.problem)
            return self.results.read(asked.arguments)
        if spec.via != "tools/call":
            asked = self._prepared(spec, call.arguments)
            if asked.problem is not None or self._other is None:
                return ToolResult.failure(asked.problem or f"nothing answers to {spec.name!r}")
            return await self._other.run(spec, asked.arguments, call.timeout)
        link = self._links.get(origin.server)
        if link is None:
            raise ServerDown(origin.server, "closed", "it was removed from the bus")
        arguments, repairs = call.arguments, ()
        if link.config.repair:
            prepared = self._prepared(spec, arguments)
            # What is no JSON at all is a mistake of the program, not of a model: sending it says so.
            if prepared.problem is not None and _is_json(arguments):
                return ToolResult.failure(
                    f"wrong arguments for {spec.name!r}, nothing was sent: {prepared.problem}"
                )
            arguments, repairs = prepared.arguments, prepared.repairs
        else:
            arguments = spec.sent(arguments)
        errand = Errand(
            tool=origin.tool,
            call=number,
            on_progress=report,
            on_log=call.on_log,
            suspends=call.on_input == "suspend",
            longest=link.config.timeouts.longest if call.longest is None else call.longest,
        )
        result = await self._answered(link, call, errand, arguments)
        return result.noting(repaired=list(repairs)) if repairs else result

    async def _answered(self, link: Link, call: Call, errand: Errand, arguments: JSONObject) -> ToolResult:
        """The result of one call on its link; a task that it becomes is followed to its end."""
        resumed = call.resumed
        if resumed is not None and resumed.pending.task is not None:
            return await Following(link, errand, call, arguments).resumed(resumed)

        def send(session: Session, timeout: float) -> Awaitable[ToolResult | TaskState]:
            waited = None if resumed is None else (resumed.pending, resumed.answers)
            return session.call_tool(errand, arguments, timeout, waited)

        timeout = link.config.timeouts.call if call.timeout is None else call.timeout
        answer = await link.request(send, timeout, repeatable=_repeatable(call.spec), recover=call.recover)
        if isinstance(answer, ToolResult):
            return answer
        return await Following(link, errand, call, arguments).to_the_end(answer)

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

    async def _told(self, call: Call) -> ToolResult:
        """As `_sent`, with its events."""
        spec, number, began = call.spec, next(self._ids), time.perf_counter()
        facts: Any = {
            "id": number,
            "name": spec.name,
            "server": spec.origin.server,
            "tool": spec.origin.tool,
        }
        self._hub.emit(CallStarted(**facts))
        failed, message = True, "cancelled"
        try:
            report = _Reporter(call, call.on_progress, self._hub, number)
            result = await self._through_link(call, report, number)
            failed, message = result.is_error, None
        except ToolbusError as error:
            message = str(error)
            raise
        finally:
            elapsed = (time.perf_counter() - began) * 1000
            self._hub.emit(CallEnded(**facts, elapsed_ms=elapsed, is_error=failed, error=message))
        return result


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

    def __init__(self, call: Call, report: Progress | None, hub: Hub | None = None, number: int = 0) -> None:
        self._name = call.spec.name
        self._report = report
        self._hub = hub
        self._number = number

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        if self._hub is not None:
            self._hub.emit(
                Progressed(id=self._number, name=self._name, progress=progress, total=total, message=message)
            )
        if self._report is not None:
            waiting = self._report(progress, total, message)
            if inspect.isawaitable(waiting):
                await waiting
