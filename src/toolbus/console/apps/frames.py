"""The frames of apps: which tool and server each belongs to, and what it may ask of that server.

A frame has two secrets. Its key comes with each request of the console's page about it. Its place is the path
of its HTML on the other origin. Neither gives access without a session of the console.
"""

import asyncio
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic_core import to_json

from toolbus.bus.inner import calls_of
from toolbus.bus.toolbus import Toolbus
from toolbus.bus.view import View
from toolbus.console.apps.csp import AppPolicy, app_policy
from toolbus.console.trials import Trial, Trials
from toolbus.core import version
from toolbus.core.operation.operation import Caller
from toolbus.core.text.encoding import as_sent, contents_json
from toolbus.core.values.apps import APP_MIME, app_of, is_for_apps
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import JSON, Embedded, JSONObject, Origin, ToolResult, ToolSpec
from toolbus.schema.values import entries_of, is_array, is_object

APP_FACE = "app"
"""The caller of what apps ask for, in policy, quotas and audit."""
MOST_FRAMES = 16
"""The oldest gives way to one more."""
MOST_AT_ONCE = 4
"""Requests of one frame that are made at the same time; others wait."""
MOST_WAITING = 32
BURST = 60
"""Requests that a frame may make at once, after it was quiet."""
PER_SECOND = 5.0
LARGEST_RESULT = 8 * 1024 * 1024
LARGEST_APP = 8 * 1024 * 1024
_INVALID_PARAMS: Final = -32602
_REFUSED: Final = -32000
_NO_METHOD: Final = -32601


class AppRefused(Exception):
    """A request of a page or an app that is not done; the message is for both."""

    def __init__(self, message: str, code: int = _REFUSED) -> None:
        self.code = code
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppPlace:
    """The other origin, as one browser reaches it."""

    origin: str = ""
    """The other origin; empty if there is none."""
    host: str = ""
    """The origin of the console in that browser."""
    problem: str = "This console has no other origin for apps."
    """The reason that apps are not shown, if there is no other origin."""


@dataclass(slots=True, kw_only=True, eq=False)
class AppFrame:
    """The app of one call, in one browser."""

    session: str
    """The name of the browser's session."""
    spec: ToolSpec
    trial: Trial
    host: str
    """The origin that may contain the frame."""
    origin: str
    """The origin of the frame."""
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    place: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    caller: Caller = field(
        default_factory=lambda: Caller(face=APP_FACE, session=f"app-{secrets.token_hex(8)}")
    )
    html: bytes = field(default=b"", repr=False)
    policy: AppPolicy = field(default_factory=lambda: app_policy({}, ""))
    allow: str = ""
    prefers_border: bool = True
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_AT_ONCE))
    waiting: int = 0
    left: float = float(BURST)
    seen: float = field(default_factory=time.monotonic)
    tasks: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])
    is_closed: bool = False

    @property
    def csp(self) -> str:
        return self.policy.header((self.origin, self.host))

    def take_turn(self) -> bool:
        """Count a request; False if the frame makes too many."""
        now = time.monotonic()
        self.left = min(float(BURST), self.left + (now - self.seen) * PER_SECOND)
        self.seen = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class AppFrames:
    """The frames of a console."""

    def __init__(self, bus: Toolbus, trials: Trials) -> None:
        self._bus = bus
        self._trials = trials
        self._frames: OrderedDict[str, AppFrame] = OrderedDict()
        """By key, the oldest first."""
        self._by_place: dict[str, AppFrame] = {}
        self._answers: Mapping[str, Callable[[AppFrame, JSONObject], Awaitable[JSON]]] = {
            "result": self._result,
            "call": self._call,
            "read": self._read,
            "close": self._leave,
        }

    def at(self, place: str) -> AppFrame | None:
        """The frame with that place."""
        return self._by_place.get(place)

    @property
    def frames(self) -> list[AppFrame]:
        """The frames that are open, the oldest first."""
        return list(self._frames.values())

    def sessions_of(self, trial: Trial) -> set[str]:
        """The callers of the apps of a call, as questions name them."""
        return {one.caller.session for one in self._frames.values() if one.trial is trial}

    async def answer(self, session: str, place: AppPlace, what: str, given: JSONObject) -> JSONObject:
        """Answer a request of the page, for itself or for the app in its frame."""
        try:
            if what == "open":
                return {"result": await self._open(session, place, given)}
            answer, frame = self._answers.get(what), self._frame(session, given)
            if answer is None:
                raise AppRefused("there is no such request", _NO_METHOD)
            return {"result": await answer(frame, given)}
        except AppRefused as refused:
            return {"error": {"code": refused.code, "message": str(refused)}}
        except ToolbusError as error:
            return {"error": {"code": _REFUSED, "message": str(error)}}

    def _frame(self, session: str, given: JSONObject) -> AppFrame:
        key = given.get("frame")
        frame = self._frames.get(key) if isinstance(key, str) else None
        if frame is None or frame.session != session:
            raise AppRefused("this app was closed; call the tool again")
        return frame

    # Open and close

    async def _open(self, session: str, place: AppPlace, given: JSONObject) -> JSON:
        number, granted = given.get("trial"), given.get("permissions")
        trial = self._trials.get(number) if isinstance(number, int) else None
        spec = None if trial is None else self._bus.catalog.get(trial.tool)
        if trial is None or spec is None:
            raise AppRefused("that call is not kept any more; call the tool again")
        if not place.origin:
            raise AppRefused(place.problem)
        frame = AppFrame(session=session, spec=spec, trial=trial, host=place.host, origin=place.origin)
        self._add(frame)
        try:
            await self._within(frame, self._load(frame))
        except BaseException:
            self.close(frame)
            raise
        names = [name for name in granted if isinstance(name, str)] if is_array(granted) else []
        frame.allow = frame.policy.allow(names)
        return _opened(frame)

    def _add(self, frame: AppFrame) -> None:
        self._frames[frame.key] = self._by_place[frame.place] = frame
        while len(self._frames) > MOST_FRAMES:
            self.close(next(iter(self._frames.values())))

    async def _load(self, frame: AppFrame) -> None:
        """Read the HTML of an app and its rules, through policy and audit."""
        uri, server = app_of(frame.spec.meta), frame.spec.origin.server
        if uri is None:
            raise AppRefused(f"the tool {frame.spec.name!r} has no app")
        result = await self._request(frame, uri)
        blocks = [one for one in result.content if isinstance(one, Embedded)]
        block = next((one for one in blocks if one.mime_type == APP_MIME), None)
        if block is None:
            raise AppRefused(f"{server!r} sent no app of the type {APP_MIME} as {uri}")
        html = (block.text or "").encode(errors="replace") if block.data is None else block.data
        if len(html) > LARGEST_APP:
            raise AppRefused(f"the app has {len(html):,} bytes; at most {LARGEST_APP:,} are shown")
        ui = entries_of((block.meta or {}).get("ui")) or self._listed_ui(server, uri)
        frame.html = html
        frame.policy = app_policy(ui, urlsplit(frame.host).hostname or "")
        frame.prefers_border = ui.get("prefersBorder") is not False

    def _listed_ui(self, server: str, uri: str) -> JSONObject:
        """The `_meta.ui` in the list of the server, for an app without its own."""
        inventory = self._bus.inventories.get(server)
        listed = () if inventory is None else inventory.resources
        found = next((one for one in listed if one.uri == uri), None)
        meta = {} if found is None else entries_of(found.extras.get("_meta"))
        return entries_of(meta.get("ui"))

    async def _leave(self, frame: AppFrame, _: JSONObject) -> JSON:
        self.close(frame)
        return {}

    def close(self, frame: AppFrame) -> None:
        """Forget a frame; what it asked for is canceled."""
        frame.is_closed = True
        self._frames.pop(frame.key, None)
        self._by_place.pop(frame.place, None)
        for task in tuple(frame.tasks):
            task.cancel()

    # What the page and the app ask for

    async def _result(self, frame: AppFrame, _: JSONObject) -> JSON:
        """The result of the call that the app shows, once it has ended."""
        trial = frame.trial
        if trial.task is not None:
            await asyncio.wait((trial.task,))
        if trial.result is None:
            return {"canceled": trial.error or "the call was canceled"}
        return {"toolResult": _bounded(as_sent(trial.result))}

    async def _call(self, frame: AppFrame, given: JSONObject) -> JSON:
        """Call a tool of the app's own server that its user interface may call."""
        name, arguments = given.get("name"), given.get("arguments")
        if not isinstance(name, str) or not (arguments is None or is_object(arguments)):
            raise AppRefused("tools/call needs a name, and arguments as an object", _INVALID_PARAMS)
        spec = self._tool(frame.spec.origin.server, name)
        view = self._view(frame)
        result = await self._in_turn(frame, lambda: view.call(spec.name, arguments or {}))
        return _bounded(as_sent(result))

    def _tool(self, server: str, name: str) -> ToolSpec:
        """A tool by the server's own name for it."""
        origin = Origin(server, name)
        found = next((one for one in self._bus.catalog if one.origin == origin), None)
        if found is None or found.route != "tools/call":
            raise calls_of(self._bus).missing(str(origin), ())
        if not is_for_apps(found.meta):
            raise AppRefused(f"{server!r} does not let its apps call the tool {name!r}")
        return found

    async def _read(self, frame: AppFrame, given: JSONObject) -> JSON:
        """Read a resource of the app's own server."""
        uri = given.get("uri")
        if not isinstance(uri, str):
            raise AppRefused("resources/read needs a uri", _INVALID_PARAMS)
        return _bounded(contents_json(await self._in_turn(frame, lambda: self._request(frame, uri))))

    def _view(self, frame: AppFrame) -> View:
        return self._bus.view(caller=frame.caller)

    async def _request(self, frame: AppFrame, uri: str) -> ToolResult:
        server = frame.spec.origin.server
        return await calls_of(self._view(frame)).request("resources/read", server, uri, {"uri": uri})

    async def _in_turn(
        self, frame: AppFrame, work: Callable[[], Coroutine[Any, Any, ToolResult]]
    ) -> ToolResult:
        """Do something for an app, unless it asks for too much."""
        if not frame.take_turn() or frame.waiting >= MOST_WAITING:
            raise AppRefused("the app asks for too much at once; it may go on in a few seconds")
        frame.waiting += 1
        try:
            async with frame.slots:
                return await self._within(frame, work())
        finally:
            frame.waiting -= 1

    async def _within(self, frame: AppFrame, work: Coroutine[Any, Any, Any]) -> Any:
        """Do something that ends with the frame."""
        task = asyncio.ensure_future(work)
        frame.tasks.add(task)
        if frame.is_closed:
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if not frame.is_closed or (current is not None and current.cancelling()):
                raise
            raise AppRefused("the app was closed") from None
        finally:
            frame.tasks.discard(task)


def _opened(frame: AppFrame) -> JSON:
    """The facts that the page needs to show a frame and to answer its app."""
    spec, policy = frame.spec, frame.policy
    tool: dict[str, JSON] = {"name": spec.origin.tool, "inputSchema": spec.input_schema}
    tool |= {"description": spec.description} if spec.description else {}
    tool |= {"title": spec.title} if spec.title else {}
    granted: Sequence[str] = [
        name for name in policy.permissions if policy.allow([name]) in frame.allow.split("; ")
    ]
    sources: JSONObject = {kind: list(found) for kind, found in policy.sources.items()}
    given: JSONObject = {name: {} for name in granted}
    return {
        "frame": frame.key,
        "url": f"{frame.origin}/{frame.place}/",
        "origin": frame.origin,
        "allow": frame.allow,
        "border": frame.prefers_border,
        "asks": [name for name in policy.permissions if name not in granted],
        "granted": given,
        "sources": sources,
        "ignored": list(policy.ignored),
        "tool": tool,
        "arguments": dict(frame.trial.sent),
        "version": version(),
        "server": spec.origin.server,
    }


def _bounded(value: JSON) -> JSON:
    """The value, unless it has too many bytes for a page."""
    try:
        size = len(to_json(value))
    except ValueError:  # a lone surrogate
        size = len(json.dumps(value))
    if size > LARGEST_RESULT:
        raise AppRefused(f"the result has {size:,} bytes; an app gets at most {LARGEST_RESULT:,}")
    return value
