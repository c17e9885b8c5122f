"""Make the vectors of tools in the background; until they are ready, tools are searched by words.

A thread works as long as there is something to do. It starts with the first search: a program that does not
search loads no model.
"""

import atexit
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from toolbus.search.encoders.encoder import Encoder, EncodingFailed
from toolbus.search.hit import SearchState
from toolbus.search.index import ToolDocument

if TYPE_CHECKING:
    from toolbus.search.vectors import KeptVectors, ToolVectors

_BATCH = 32
"""Texts that are encoded together; after each batch, vectors can be used and a query comes first."""
_SAVED_EVERY = 15.0
_RETRIED_AFTER = 30.0
"""Seconds before an encoder that failed is asked again."""
_ENOUGH = 0.9
"""The share of tools whose vectors are there before a search goes by meaning."""
_MOST_QUERIES = 256
_AT_EXIT = 5.0
logger = logging.getLogger("toolbus")


class Encoding:
    """The encoder of a bus, and what it has encoded; may be used from any thread."""

    def __init__(self, opened: Callable[[], Encoder], *, quiet: bool = False) -> None:
        """`opened` loads the encoder, if `quiet`, nobody asked for one, and none is no problem."""
        self._opened, self._quiet = opened, quiet
        self._encoder: Encoder | None = None
        self._kept: KeptVectors | None = None
        self._reason, self._retry_at = "", 0.0
        self._todo: OrderedDict[str, bytes] = OrderedDict()
        self._asked: OrderedDict[str, None] = OrderedDict()
        """Queries that somebody waits for."""
        self._queries: OrderedDict[str, Any] = OrderedDict()
        self._wanted: list[tuple[bytes, bytes]] = []
        """The digests of the tools that were searched last: as a whole, and of the name."""
        self._changed = Condition()
        self._thread: Thread | None = None
        self._closed = False

    # What searches use

    def attach(self, documents: Sequence[ToolDocument]) -> None:
        """These tools are searched: make the vectors that are missing."""
        digests = [one.digests for one in documents]
        with self._changed:
            self._wanted = digests
            self._todo.clear()
            for one, keys in zip(documents, digests, strict=True):
                for text, key in zip((one.text, one.name), keys, strict=True):
                    if self._kept is None or self._kept.find(key) is None:
                        self._todo[text] = key
            if self._kept is not None:
                self._kept.touch([key for keys in self._wanted for key in keys])
            self._work()

    def meaning(
        self, documents: Sequence[ToolDocument], before: "tuple[int, ToolVectors] | None"
    ) -> "tuple[int, ToolVectors] | None":
        """The vectors of these tools and how many there are, or None if there are too few.

        `before` is the last answer, which is given again as long as there are not more.
        """
        with self._changed:
            if self._kept is None or self._encoder is None:
                self._work()
                return None
            from toolbus.search.vectors import ToolVectors

            if before is not None and before[0] == len(documents):
                return before
            find = self._kept.find
            digests = [one.digests for one in documents]
            wholes = [find(whole) for whole, _ in digests]
            count = sum(one is not None for one in wholes)
            if not count or count < _ENOUGH * len(documents):
                self._work()
                return None
            if before is not None and before[0] == count:
                return before
            return count, ToolVectors(wholes, [find(name) for _, name in digests])

    def query(self, text: str, patience: float) -> Any:
        """The vector of a query, or None if there is none in that many seconds."""
        with self._changed:
            encoder = self._encoder
            if (found := self._queries.get(text)) is not None:
                self._queries.move_to_end(text)
                return found
            if encoder is None or time.monotonic() < self._retry_at:
                return None
            if not encoder.local:
                self._asked[text] = None
                self._work()
                self._changed.wait_for(lambda: text in self._queries or text not in self._asked, patience)
                return self._queries.get(text)
        try:
            return self._learned({text: _rows(encoder, [text])[0]})[text]
        except EncodingFailed as error:
            self._fail(error)
            return None

    @property
    def state(self) -> SearchState:
        """The progress of the encoding."""
        with self._changed:
            find = None if self._kept is None else self._kept.find
            done = 0 if find is None else sum(find(whole) is not None for whole, _ in self._wanted)
            name = "" if self._encoder is None else self._encoder.name
            return SearchState(encoder=name, encoded=done, total=len(self._wanted), reason=self._reason)

    def wait(self, timeout: float | None = None) -> SearchState:
        """Wait until all vectors are ready, or cannot be made, and return the progress."""
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None, timeout)
        return self.state

    def close(self, timeout: float = 0.0) -> None:
        """Stop after the texts in hand, and store what there is."""
        with self._changed:
            self._closed = True
            thread = self._thread
            self._asked.clear()
            self._changed.notify_all()
        if thread is not None and timeout:
            thread.join(timeout)

    # The thread

    def _work(self) -> None:
        """Start the thread if there is something to do; the lock is held."""
        is_new = self._encoder is None and not self._reason
        has_work = bool(self._todo or self._asked or is_new) and time.monotonic() >= self._retry_at
        if has_work and not self._closed and (self._thread is None or not self._thread.is_alive()):
            self._thread = Thread(target=self._run, name="toolbus search", daemon=True)
            _watch(self)
            self._thread.start()

    def _run(self) -> None:
        try:
            self._load()
            saved = time.monotonic()
            while self._next():
                if time.monotonic() - saved > _SAVED_EVERY:
                    self._save()
                    saved = time.monotonic()
        except EncodingFailed as error:
            self._fail(error)
        except Exception as error:  # a thread's edge: searches go on by words
            logger.debug("encoding failed", exc_info=True)
            self._fail(EncodingFailed(f"the encoder failed: {type(error).__name__}"))
        finally:
            self._save()
            with self._changed:
                self._thread = None
                self._asked.clear()
                self._changed.notify_all()

    def _load(self) -> None:
        if self._encoder is not None:
            return
        encoder = self._opened()  # says which extra is missing; the next import would only fail
        from toolbus.search.vectors import KeptVectors

        kept = KeptVectors(encoder.kept_as)
        with self._changed:
            self._encoder, self._kept, self._reason = encoder, kept, ""
            for text in [text for text, key in self._todo.items() if kept.find(key) is not None]:
                del self._todo[text]
            kept.touch([key for keys in self._wanted for key in keys])

    def _next(self) -> bool:
        """Encode the next texts; False if there are none."""
        with self._changed:
            encoder = self._encoder
            queries, texts = list(self._asked), list(self._todo.items())[:_BATCH]
        if self._closed or encoder is None or not (queries or texts):
            return False
        if queries:
            rows = _rows(encoder, queries)
            self._learned(dict(zip(queries, rows, strict=True)))
            return True
        rows = _rows(encoder, [text for text, _ in texts])
        with self._changed:
            if self._kept is not None:
                self._kept.add([key for _, key in texts], rows)
            for text, _ in texts:
                self._todo.pop(text, None)
            self._reason = ""
            left = len(self._todo)
            self._changed.notify_all()
        logger.debug("search: %d texts left to encode with %s", left, encoder.name)
        return True

    def _learned(self, vectors: dict[str, Any]) -> dict[str, Any]:
        with self._changed:
            self._queries.update(vectors)
            while len(self._queries) > _MOST_QUERIES:
                self._queries.popitem(last=False)
            for text in vectors:
                self._asked.pop(text, None)
            self._changed.notify_all()
        return vectors

    def _fail(self, error: EncodingFailed) -> None:
        with self._changed:
            is_news = self._reason != str(error)
            self._reason = str(error)
            self._retry_at = time.monotonic() + _RETRIED_AFTER if error.retry else float("inf")
            self._asked.clear()
            self._changed.notify_all()
        if is_news and not self._quiet:
            logger.warning("tools are searched by words alone: %s", error)

    def _save(self) -> None:
        with self._changed:
            if self._kept is not None:
                self._kept.save()


def _rows(encoder: Encoder, texts: Sequence[str]) -> Any:
    """The vectors, each of length 1; `EncodingFailed` if they are not vectors."""
    from toolbus.search.vectors import as_unit

    found = encoder.encode(texts)
    try:
        rows = as_unit(found)
    except (TypeError, ValueError):
        rows = None
    if rows is None or rows.ndim != 2 or len(rows) != len(texts):
        raise EncodingFailed("the encoder did not return a vector for each text")
    return rows


_working: "WeakSet[Encoding]" = WeakSet()


def _watch(encoding: Encoding) -> None:
    # A thread that computes in compiled code while the interpreter ends would crash it.
    if not _working:
        atexit.unregister(_end_all)
        atexit.register(_end_all)
    _working.add(encoding)


def _end_all() -> None:
    for encoding in list(_working):
        encoding.close(_AT_EXIT)
