"""Resources in the context of an agent: read before a run, within a budget.

Resources with change notifications are cached, others are read on every run. A failed resource is skipped
with a warning and does not affect the others. Every wait is bounded, and no call here raises.
"""

import asyncio
import re
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeAlias
from urllib.parse import quote

from toolbus.bus.inner import calls_of
from toolbus.bus.view import View
from toolbus.config import BusConfig, ContextSource
from toolbus.config.load import setting
from toolbus.core.operation.events import Event, ResourceUpdated, StateChanged
from toolbus.core.text.text import cleaned
from toolbus.core.values.errors import (
    DownReason,
    ServerDown,
    ServerError,
    ServerNotFound,
    ServerRejected,
    ToolbusError,
    problem_of,
)
from toolbus.core.values.records import Budget, Embedded, Resource, ServerStatus, Text, ToolResult
from toolbus.shape import rendered_text
from toolbus.shape.budget import estimated_tokens, fitted_blocks
from toolbus.shape.render import without_base64

READ_TIMEOUT = 10.0
"""Seconds for each resource; an agent waits for all of them."""
SUBSCRIBE_TIMEOUT = 2.0
"""Seconds within which a server must accept a subscription."""
UNSUBSCRIBE_TIMEOUT = 2.0
MAX_MATCHES = 100
"""The maximum number of resources read for one pattern: more than fit into any budget."""

Source: TypeAlias = ContextSource | Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedResource:
    """The content of a resource, and its listing at the time it was read."""

    blocks: tuple[Embedded, ...]
    listed: Resource | None
    version: int


_MAX_NAMED = 5
"""The maximum number of omitted resources that are named."""
_NOTE_TOKENS = 100
"""The token limit of the note that names them."""
_MIN_PART_TOKENS = 60
"""A part of a resource with fewer tokens is not useful."""

Key: TypeAlias = tuple[str, str]
"""A server and the URI of one of its resources."""


def fitted_text(resources: Iterable[tuple[Key, str]], budget: int) -> tuple[str, list[Key]]:
    """The resources as one text within the budget, and the keys of those that are not complete in it.

    The first ones are complete, so that later entries of the config do not change them. The resource that
    exceeds the budget is shortened, and the rest are only named.
    """
    framed = [(key, _Frame(key, text)) for key, text in resources]
    full = "\n\n".join(frame.full for _, frame in framed)
    if _fits(full, budget):
        return full, []
    shown: list[str] = []
    incomplete: list[Key] = []
    omitted: list[Key] = []
    room = budget - _NOTE_TOKENS
    for key, frame in framed:
        part = None if incomplete else frame.fitted(room)
        if part is not frame.full:
            incomplete.append(key)
        if part is None:
            omitted.append(key)
        else:
            shown.append(part)
            room -= estimated_tokens(f"{part}\n\n")
    if omitted:
        shown.append(_note(omitted, budget))
    return "\n\n".join(shown), incomplete


class _Frame:
    """A resource between two tags that its text cannot forge."""

    def __init__(self, key: Key, text: str) -> None:
        server, uri = map(_attribute, key)
        self._head = f'<resource server="{server}" uri="{uri}">'
        self._text = re.sub(r"</(?=resource\s*>)", r"<\\/", cleaned(text).rstrip(), flags=re.IGNORECASE)
        self.full = f"{self._head}\n{self._text}\n</resource>"

    def fitted(self, tokens: int) -> str | None:
        """The resource in at most that many tokens; None if they are too few to be useful."""
        if _fits(self.full, tokens):
            return self.full
        room = tokens - estimated_tokens(f"{self._head}\n\n</resource>")
        if room < _MIN_PART_TOKENS:
            return None
        body = ToolResult(content=fitted_blocks((Text(text=self._text),), Budget(tokens=room), None)).text
        return f"{self._head}\n{body}\n</resource>" if _fits(body, room) else None


def _fits(text: str, tokens: int) -> bool:
    # No character counts less than a quarter: longer text need not be counted.
    return len(text) <= 4 * tokens and estimated_tokens(text) <= tokens


def _note(omitted: list[Key], budget: int) -> str:
    note = ""
    for count in range(min(len(omitted), _MAX_NAMED), -1, -1):
        names = "; ".join(_attribute(uri) for _, uri in omitted[:count]) or f"{len(omitted):,} resources"
        more = f"; and {len(omitted) - count:,} more" if 0 < count < len(omitted) else ""
        note = f"[left out, beyond {budget:,} tokens: {names}{more}]"
        if _fits(note, _NOTE_TOKENS):
            break
    return note


def _attribute(text: str) -> str:
    return re.sub(r'["<>\s]', lambda found: quote(found[0]), cleaned(text))


def _readable_text(block: Embedded) -> str:
    """The text of a resource for a model; a blob becomes one line of description."""
    if block.text is not None:
        return without_base64(block.text)
    return rendered_text(ToolResult(content=(block,)))


class ContextProvider:
    """The resources that the config lists under `context`, or `sources`, as blocks or as one text.

    Subscribes to the resources at the first call; `close` unsubscribes. Can be used from any loop.
    """

    def __init__(
        self, bus: View, *, sources: Iterable[Source] | None = None, budget: int | None = None
    ) -> None:
        """Reads nothing yet; ConfigError if a source is invalid."""
        self._bus = bus
        self._sources = None if sources is None else setting("context", list(sources))
        self._budget = None if budget is None else setting("context_budget", budget)
        self._cache: dict[Key, _CachedResource] = {}
        self._versions: Counter[Key] = Counter()
        """The number of changes; content that was read before the last one is stale."""
        self._subscribed: set[Key] = set()
        self._unsubscribable: set[Key] = set()
        """Resources without change notifications."""
        self._timed_out: set[str] = set()
        """Servers that did not connect or respond in time."""
        self._unlisten: Callable[[], None] | None = None

    async def blocks(self) -> tuple[Embedded, ...]:
        """The full content of the resources, text and blobs, in the order of the config."""
        return tuple(block for _, block in await self._current())

    async def text(self) -> str:
        """The resources as one text for a system prompt, with a note about anything left out."""
        budget = self._config.context_budget if self._budget is None else self._budget
        found = await self._current()
        text, incomplete = fitted_text(
            [((server, block.uri), _readable_text(block)) for server, block in found], budget
        )
        for server, uri in incomplete:
            calls_of(self._bus).warn(
                server,
                None,
                f"resource {uri!r} is not complete in the context: the budget is {budget:,} tokens",
            )
        return text

    async def close(self) -> None:
        """Unsubscribe and clear the cache. Any number of times; the next call starts over."""
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None
        subscribed, states = tuple(self._subscribed), self._bus.servers
        for known in (self._subscribed, self._unsubscribable, self._timed_out, self._cache):
            known.clear()
        live = [key for key in subscribed if key[0] in states and states[key[0]].state == "ready"]
        await asyncio.gather(*map(self._unsubscribe, live))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _config(self) -> BusConfig:
        return self._bus.config

    # The current content

    async def _current(self) -> list[tuple[str, Embedded]]:
        config = self._config
        sources = config.context if self._sources is None else self._sources
        sources = [source for source in sources if source.server not in config.disabled]
        if not sources:
            return []
        self._listen()
        states = self._bus.servers
        selected = await asyncio.gather(*(self._select(source, states) for source in sources))
        wanted = dict.fromkeys(key for keys in selected for key in keys)
        listed = {(resource.server, resource.uri): resource for resource in self._bus.resources()}
        gone = [key for key in self._subscribed if key not in wanted]
        self._subscribed.difference_update(gone)
        found, _ = await asyncio.gather(
            asyncio.gather(*(self._content(key, states, listed.get(key)) for key in wanted)),
            asyncio.gather(*map(self._unsubscribe, gone)),
        )
        return [(key[0], block) for key, blocks in zip(wanted, found, strict=True) for block in blocks]

    async def _select(self, source: ContextSource, states: Mapping[str, ServerStatus]) -> list[Key]:
        """The one resource, or those that match the pattern; in the same order on every run."""
        if "*" not in source.uri:
            return [(source.server, source.uri)]
        try:
            if not self._bus.resources(source.server):
                async with asyncio.timeout(READ_TIMEOUT):
                    await self._connect(source.server, states)
            listed = {resource.uri for resource in self._bus.resources(source.server)}
        except (ToolbusError, TimeoutError) as error:
            self._warn_failed((source.server, source.uri), error)
            return []
        pattern = re.compile(re.escape(source.uri).replace(r"\*", ".*"), re.DOTALL)
        found = sorted(uri for uri in listed if pattern.fullmatch(uri))
        if not found:
            calls_of(self._bus).warn(
                source.server, None, f"no resource for the context matches {source.uri!r}"
            )
        if len(found) > MAX_MATCHES:
            problem = (
                f"{len(found):,} resources for the context match {source.uri!r}; only {MAX_MATCHES} are read"
            )
            calls_of(self._bus).warn(source.server, None, problem)
        return [(source.server, uri) for uri in found[:MAX_MATCHES]]

    async def _content(
        self, key: Key, states: Mapping[str, ServerStatus], listed: Resource | None
    ) -> tuple[Embedded, ...]:
        """The resource, from the cache if it has not changed; nothing if it cannot be read."""
        server, uri = key
        cached, now = self._cache.get(key), (listed, self._versions[key])
        # An idle link receives no notifications; a lost one reports a change once it is back.
        awake = server in states and states[server].state != "idle"
        if (
            cached is not None
            and awake
            and key in self._subscribed
            and (cached.listed, cached.version) == now
        ):
            return cached.blocks
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                await self._connect(server, states)
                await self._subscribe(key)
                if listed is None and states[server].state != "ready":  # connected since, so it is listed now
                    listed = next((found for found in self._bus.resources(server) if found.uri == uri), None)
                # Taken before the read: a change from here on makes the content stale.
                version = self._versions[key]
                blocks = await self._bus.read_resource(server, uri)
        except (ToolbusError, TimeoutError) as error:
            self._cache.pop(key, None)
            self._warn_failed(key, error)
            return ()
        self._timed_out.discard(server)
        if key in self._subscribed:  # else no notification would tell that it is stale
            self._cache[key] = _CachedResource(blocks=blocks, listed=listed, version=version)
        return blocks

    def _warn_failed(self, key: Key, error: ToolbusError | TimeoutError) -> None:
        server, uri = key
        status = self._bus.servers.get(server)
        if isinstance(error, TimeoutError) or (status is not None and status.state != "ready"):
            self._timed_out.add(server)
        problem = problem_of(error)
        calls_of(self._bus).warn(
            server,
            None,
            f"resource {uri!r} is not in the context: {problem or f'timed out after {READ_TIMEOUT:g} s'}",
        )

    # Changes

    async def _connect(self, server: str, states: Mapping[str, ServerStatus]) -> None:
        """Wait until the server is connected and listed, even if it is lazy.

        Raises `ServerDown` if that fails, and at once if it did not connect in time before.
        """
        if server not in states:
            raise ServerNotFound(server, list(states))
        state = states[server].state
        if state == "ready":
            return
        if server in self._timed_out and state != "idle":
            failure = self._bus.failures.get(server)
            raise ServerDown(
                server, state, DownReason.of(failure) if isinstance(failure, ServerError) else None
            )
        await self._bus.connect(server)

    async def _subscribe(self, key: Key) -> None:
        if key in self._subscribed or key in self._unsubscribable:
            return
        try:
            async with asyncio.timeout(SUBSCRIBE_TIMEOUT):
                await self._bus.subscribe(*key)
        except (ServerRejected, TimeoutError):
            self._unsubscribable.add(key)
        else:
            self._subscribed.add(key)

    async def _unsubscribe(self, key: Key) -> None:
        self._cache.pop(key, None)
        try:
            async with asyncio.timeout(UNSUBSCRIBE_TIMEOUT):
                await self._bus.unsubscribe(*key)
        except (ToolbusError, TimeoutError):
            pass  # it no longer sends notifications

    def _listen(self) -> None:
        if self._unlisten is not None:
            return
        # A weak reference: an agent that is dropped without being closed must not live as long as its bus.
        provider = weakref.ref(self)

        def handle(event: Event) -> None:
            if (alive := provider()) is not None:
                alive._handle(event)

        self._unlisten = self._bus.on_event(handle)
        weakref.finalize(self, self._unlisten).atexit = False

    def _handle(self, event: Event) -> None:
        match event:
            case ResourceUpdated(server=server, uri=uri):
                # The URI may also be a part of the resource that was subscribed to.
                for key in tuple(self._subscribed):
                    if key[0] == server and f"{uri}/".startswith(f"{key[1].removesuffix('/')}/"):
                        self._versions[key] += 1
            case StateChanged(server=server, state="ready"):
                # It may be another version of the server now.
                self._unsubscribable = {key for key in self._unsubscribable if key[0] != server}
            case StateChanged(server=server, state="closed"):
                # Another link may replace it, without our subscriptions.
                self._subscribed = {key for key in self._subscribed if key[0] != server}
            case _:
                pass
