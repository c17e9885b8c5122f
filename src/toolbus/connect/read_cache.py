"""The results of `resources/read` that a modern server allows to be cached while its connection lasts."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace

from toolbus.core.operation.operation import Operation
from toolbus.core.values import freshness
from toolbus.core.values.freshness import Freshness, freshness_of
from toolbus.core.values.records import Embedded, JSONObject, ToolResult, received_of

MOST_ENTRIES = 200
MOST_BYTES = 4 * 1024 * 1024
"""Of one connection; each entry may have an eighth of it."""
_ENTRY = 500
"""The number of bytes that every entry adds to the size of the cache."""
_TRACING = frozenset({"traceparent", "tracestate", "baggage"})
_EVERYBODY = None


@dataclass(frozen=True, slots=True)
class _Entry:
    result: ToolResult
    until: float
    is_public: bool
    size: int


class ReadCache:
    """The reads of one connection that are fresh: private ones for their caller, public ones for all."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, bool, Hashable], _Entry] = OrderedDict()
        self._size = 0
        self.version = 0
        """The number of invalidations; results that were requested before the last one are not cached."""

    def get(self, operation: Operation) -> ToolResult | None:
        """The fresh result of the same read, if there is one; says for how much longer it is fresh."""
        if not self._entries or not _is_plain(operation):
            return None
        for reader in (_reader(operation), _EVERYBODY):
            key = (operation.arguments["uri"], operation.forwarding is not None, reader)
            entry = self._entries.get(key)
            if entry is None:
                continue
            if entry.until <= freshness.clock():
                self._drop(key)
                continue
            self._entries.move_to_end(key)
            return _aged(entry)
        return None

    def put(self, operation: Operation, result: ToolResult, sent: JSONObject, version: int) -> None:
        """Keep a result if the server allows it, and nothing has changed since the version."""
        said = freshness_of(sent)
        if said is None or not said.seconds or version != self.version or not _is_plain(operation):
            return
        if (size := _size(result)) > MOST_BYTES // 8:
            return
        key = (operation.arguments["uri"], operation.forwarding is not None)
        for reader in (_reader(operation), _EVERYBODY):
            self._drop((*key, reader))
        reader = _EVERYBODY if said.is_public else _reader(operation)
        self._entries[*key, reader] = _Entry(result, freshness.clock() + said.seconds, said.is_public, size)
        self._size += size
        while len(self._entries) > MOST_ENTRIES or self._size > MOST_BYTES:
            self._drop(next(iter(self._entries)))

    def forget(self, uri: str | None = None) -> None:
        """Forget a changed resource and everything below it; without a URI, forget all."""
        self.version += 1
        begins = (uri or "").removesuffix("/")
        for key in [key for key in self._entries if key[0].startswith(begins)]:
            self._drop(key)

    def _drop(self, key: tuple[str, bool, Hashable]) -> None:
        entry = self._entries.pop(key, None)
        self._size -= 0 if entry is None else entry.size


def _reader(operation: Operation) -> Hashable:
    """The users of a private result: the same user in the same session."""
    return operation.caller.user, operation.caller.session


def _size(result: ToolResult) -> int:
    """About its bytes in memory, with all that its server sent along."""
    parts = [block for block in result.content if isinstance(block, Embedded)]
    size = _ENTRY + sum(len(part.uri) + 2 * len(part.text or "") + len(part.data or b"") for part in parts)
    received = received_of(result)
    beside = [part.meta for part in parts] if received is None else received.json
    return size + len(repr(beside))


def _is_plain(operation: Operation) -> bool:
    """Whether nothing but the URI and its caller decides about the result."""
    forwarding = operation.forwarding
    if operation.route != "resources/read":
        return False
    if forwarding is None:
        return True
    return forwarding.responses is None and forwarding.state is None and forwarding.meta.keys() <= _TRACING


def _aged(entry: _Entry) -> ToolResult:
    """The result, with the time that is left to it."""
    received = received_of(entry.result)
    if received is None:
        return entry.result
    hints = Freshness(entry.until - freshness.clock(), entry.is_public).hints
    return replace(entry.result, _received=received._replace(json={**received.json, **hints}))
