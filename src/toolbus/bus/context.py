"""Resources in the context of an agent: read before a run, kept until they change, within a budget.

A server that tells of changes is asked once; one that does not, for every run. What cannot be read is left
out with a warning: it hurts only itself, every wait is bounded, and no call here raises.
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

from toolbus.bus.view import View
from toolbus.config import BusConfig, ContextSource
from toolbus.config.context import context_budget, context_sources
from toolbus.config.location import Location
from toolbus.core.errors import CallRejected, ServerDown, ServerError, ServerNotFound, ToolbusError
from toolbus.core.events import Event, ResourceUpdated, StateChanged
from toolbus.core.records import Budget, Embedded, Resource, ServerStatus, Text, ToolResult
from toolbus.core.text import cleaned
from toolbus.shape import rendered_text
from toolbus.shape.budget import estimated_tokens, fitted_blocks
from toolbus.shape.render import without_base64

SECONDS = 10.0
"""How long a resource may take: an agent waits for all of them."""
AGREEING = 2.0
"""Seconds in which a server has to say that it will tell of changes."""
CLOSING = 2.0
MOST = 100
"""How many resources are read for one pattern: more than fit into any budget."""
NAMED = 5
"""How many of the resources that are left out are named."""
NOTE = 100
"""Tokens that the line which names them may take."""
WORTHWHILE = 60
"""Tokens below which a part of a resource says nothing."""

Key: TypeAlias = tuple[str, str]
"""A server, and the address of a resource there."""
Source: TypeAlias = ContextSource | Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """What was read, and what was known of the resource then."""

    blocks: tuple[Embedded, ...]
    listed: Resource | None
    version: int


class ContextProvider:
    """What the config names under `context`, or `sources`, as blocks or as one text.

    Subscribes to the resources at the first call; `close` ends that. May be used from any loop.
    """

    def __init__(
        self, bus: View, *, sources: Iterable[Source] | None = None, budget: int | None = None
    ) -> None:
        """Reads nothing yet; ConfigError for a source that is none."""
        self._bus = bus
        self._sources = None if sources is None else context_sources(list(sources), Location())
        self._budget = None if budget is None else context_budget(budget, Location())
        self._kept: dict[Key, _Kept] = {}
        self._versions: Counter[Key] = Counter()
        """Counts the changes; what was read before the last one is not good any more."""
        self._heard: set[Key] = set()
        self._silent: set[Key] = set()
        """Servers that do not tell of changes."""
        self._late: set[str] = set()
        """Servers that were waited for in vain."""
        self._end: Callable[[], None] | None = None

    async def blocks(self) -> tuple[Embedded, ...]:
        """The resources as they are, whole, text and blobs, in the order of the config."""
        return tuple(block for _, block in await self._current())

    async def text(self) -> str:
        """The resources as one text for a system prompt; it says what was left out of it."""
        budget = self._config.context_budget if self._budget is None else self._budget
        found = await self._current()
        text, short = fitting([((server, block.uri), _shown(block)) for server, block in found], budget)
        for server, uri in short:
            self._bus.warn(
                server, None, f"resource {uri!r} is not whole in the context: it has {budget:,} tokens"
            )
        return text

    async def close(self) -> None:
        """Hear of no more changes. Any number of times; the next call begins anew."""
        if self._end is not None:
            self._end()
            self._end = None
        heard, states = tuple(self._heard), self._bus.servers
        for known in (self._heard, self._silent, self._late, self._kept):
            known.clear()
        live = [key for key in heard if key[0] in states and states[key[0]].state == "ready"]
        await asyncio.gather(*map(self._unsubscribed, live))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _config(self) -> BusConfig:
        return self._bus.config

    # What there is now

    async def _current(self) -> list[tuple[str, Embedded]]:
        sources = self._config.context if self._sources is None else self._sources
        if not sources:
            return []
        self._listen()
        states = self._bus.servers
        chosen = await asyncio.gather(*(self._chosen(source, states) for source in sources))
        wanted = dict.fromkeys(key for keys in chosen for key in keys)
        listed = {(resource.server, resource.uri): resource for resource in self._bus.resources()}
        gone = [key for key in self._heard if key not in wanted]
        self._heard.difference_update(gone)
        found, _ = await asyncio.gather(
            asyncio.gather(*(self._content(key, states, listed.get(key)) for key in wanted)),
            asyncio.gather(*map(self._unsubscribed, gone)),
        )
        return [(key[0], block) for key, blocks in zip(wanted, found, strict=True) for block in blocks]

    async def _chosen(self, source: ContextSource, states: Mapping[str, ServerStatus]) -> list[Key]:
        """The one resource, or those that the pattern fits; in an order that is the same on every run."""
        if "*" not in source.uri:
            return [(source.server, source.uri)]
        try:
            if not self._bus.resources(source.server):
                async with asyncio.timeout(SECONDS):
                    await self._brought_up(source.server, states)
            listed = {resource.uri for resource in self._bus.resources(source.server)}
        except (ToolbusError, TimeoutError) as error:
            self._failed((source.server, source.uri), error)
            return []
        pattern = re.compile(re.escape(source.uri).replace(r"\*", ".*"), re.DOTALL)
        found = sorted(uri for uri in listed if pattern.fullmatch(uri))
        if not found:
            self._bus.warn(source.server, None, f"no resource for the context fits {source.uri!r}")
        if len(found) > MOST:
            problem = f"{len(found):,} resources for the context fit {source.uri!r}; {MOST} of them are read"
            self._bus.warn(source.server, None, problem)
        return [(source.server, uri) for uri in found[:MOST]]

    async def _content(
        self, key: Key, states: Mapping[str, ServerStatus], listed: Resource | None
    ) -> tuple[Embedded, ...]:
        """The resource, from the cache if it has not changed; nothing if it cannot be read."""
        server, uri = key
        kept, now = self._kept.get(key), (listed, self._versions[key])
        # A link that sleeps hears nothing; one that is lost tells of a change when it is back.
        awake = server in states and states[server].state != "idle"
        if kept is not None and awake and key in self._heard and (kept.listed, kept.version) == now:
            return kept.blocks
        try:
            async with asyncio.timeout(SECONDS):
                await self._brought_up(server, states)
                await self._subscribed(key)
                if listed is None and states[server].state != "ready":  # it has listed them by now
                    listed = next((found for found in self._bus.resources(server) if found.uri == uri), None)
                # Looked at before it is read: a change from here on makes it old.
                version = self._versions[key]
                blocks = await self._bus.read_resource(server, uri)
        except (ToolbusError, TimeoutError) as error:
            self._kept.pop(key, None)
            self._failed(key, error)
            return ()
        self._late.discard(server)
        if key in self._heard:  # else nobody would say when it is old
            self._kept[key] = _Kept(blocks=blocks, listed=listed, version=version)
        return blocks

    def _failed(self, key: Key, error: ToolbusError | TimeoutError) -> None:
        server, uri = key
        status = self._bus.servers.get(server)
        if isinstance(error, TimeoutError) or (status is not None and status.state != "ready"):
            self._late.add(server)
        problem = error.problem if isinstance(error, ServerError) else str(error)
        self._bus.warn(
            server,
            None,
            f"resource {uri!r} is not in the context: {problem or f'no answer in {SECONDS:g} s'}",
        )

    # Changes

    async def _brought_up(self, server: str, states: Mapping[str, ServerStatus]) -> None:
        """Wait until the server has listed what it has, also one that is lazy.

        Raises `ServerDown` if it cannot be had, and at once if it was waited for in vain before.
        """
        if server not in states:
            raise ServerNotFound(server, list(states))
        state = states[server].state
        if state == "ready":
            return
        if server in self._late and state != "idle":
            failure = self._bus.failures.get(server)
            raise ServerDown(server, state, failure.problem if isinstance(failure, ServerError) else None)
        await self._bus.connect(server)

    async def _subscribed(self, key: Key) -> None:
        if key in self._heard or key in self._silent:
            return
        try:
            async with asyncio.timeout(AGREEING):
                await self._bus.subscribe(*key)
        except (CallRejected, TimeoutError):
            self._silent.add(key)
        else:
            self._heard.add(key)

    async def _unsubscribed(self, key: Key) -> None:
        self._kept.pop(key, None)
        try:
            async with asyncio.timeout(CLOSING):
                await self._bus.unsubscribe(*key)
        except (ToolbusError, TimeoutError):
            pass  # then nobody is there who would tell

    def _listen(self) -> None:
        if self._end is not None:
            return
        # Weakly: an agent that is dropped without being closed must not live as long as its bus.
        provider = weakref.ref(self)

        def take(event: Event) -> None:
            if (alive := provider()) is not None:
                alive._take(event)

        self._end = self._bus.on_event(take)
        weakref.finalize(self, self._end).atexit = False

    def _take(self, event: Event) -> None:
        match event:
            case ResourceUpdated(server=server, uri=uri):
                # What a server names may also be a part of what was subscribed to.
                for key in tuple(self._heard):
                    if key[0] == server and f"{uri}/".startswith(f"{key[1].removesuffix('/')}/"):
                        self._versions[key] += 1
            case StateChanged(server=server, state="ready"):
                # It may be another one now.
                self._silent = {key for key in self._silent if key[0] != server}
            case StateChanged(server=server, state="closed"):
                # Another link may take its place, which knows nothing of our subscriptions.
                self._heard = {key for key in self._heard if key[0] != server}
            case _:
                pass


# The text


def fitting(resources: Iterable[tuple[Key, str]], budget: int) -> tuple[str, list[Key]]:
    """Resources as one text of so many tokens, and those that are not whole in it.

    The first ones are whole, so that what comes later in the config changes nothing of them; where the
    budget ends one is cut, and the others are named.
    """
    framed = [(key, _Frame(key, text)) for key, text in resources]
    whole = "\n\n".join(frame.whole for _, frame in framed)
    if _fits(whole, budget):
        return whole, []
    shown: list[str] = []
    short: list[Key] = []
    missing: list[Key] = []
    room = budget - NOTE
    for key, frame in framed:
        part = None if short else frame.cut(room)
        if part is not frame.whole:
            short.append(key)
        if part is None:
            missing.append(key)
        else:
            shown.append(part)
            room -= estimated_tokens(f"{part}\n\n")
    if missing:
        shown.append(_note(missing, budget))
    return "\n\n".join(shown), short


class _Frame:
    """A resource between two lines that nothing in it can fake."""

    def __init__(self, key: Key, text: str) -> None:
        server, uri = map(_attribute, key)
        self._head = f'<resource server="{server}" uri="{uri}">'
        self._text = re.sub(r"</(?=resource\s*>)", r"<\\/", cleaned(text).rstrip(), flags=re.IGNORECASE)
        self.whole = f"{self._head}\n{self._text}\n</resource>"

    def cut(self, tokens: int) -> str | None:
        """In so many tokens; None if that is not enough for anything."""
        if _fits(self.whole, tokens):
            return self.whole
        room = tokens - estimated_tokens(f"{self._head}\n\n</resource>")
        if room < WORTHWHILE:
            return None
        body = ToolResult(content=fitted_blocks((Text(text=self._text),), Budget(tokens=room), None)).text
        return f"{self._head}\n{body}\n</resource>" if _fits(body, room) else None


def _fits(text: str, tokens: int) -> bool:
    # No character weighs less than a quarter: longer text need not be counted.
    return len(text) <= 4 * tokens and estimated_tokens(text) <= tokens


def _note(missing: list[Key], budget: int) -> str:
    note = ""
    for count in range(min(len(missing), NAMED), -1, -1):
        names = "; ".join(_attribute(uri) for _, uri in missing[:count]) or f"{len(missing):,} resources"
        more = f"; and {len(missing) - count:,} more" if 0 < count < len(missing) else ""
        note = f"[left out, beyond {budget:,} tokens: {names}{more}]"
        if _fits(note, NOTE):
            break
    return note


def _attribute(text: str) -> str:
    return re.sub(r'["<>\s]', lambda found: quote(found[0]), cleaned(text))


def _shown(block: Embedded) -> str:
    """What a model can read of it; a blob is described in a line."""
    if block.text is not None:
        return without_base64(block.text)
    return rendered_text(ToolResult(content=(block,)))
