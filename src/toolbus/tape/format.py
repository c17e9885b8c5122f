"""The format of a tape: one JSON document per line, readable in a diff, of no protocol era.

```text
{"tape": 1, "toolbus": "0.42.0"}
{"server": "notes", "after": 0, "list": "tools", "items": [{"name": "add", ...}]}
{"id": 1, "server": "notes", "method": "tools/call", "name": "add", "arguments": {"text": "tea"},
 "events": [{"progress": [1, 2, "half"]}], "result": {"content": [...]}, "at": 0.12, "seconds": 0.01}
{"server": "notes", "after": 1, "list": "tools", "items": [...]}
{"server": "notes", "after": 1, "updated": "notes://all"}
{"end": true}
```

Read a tape with `Tape(path)`:

    tape = Tape("tape.jsonl")
    for entry in tape:               # RecordedList, RecordedCall and RecordedUpdate, in order
        if isinstance(entry, RecordedCall):
            print(entry.id, entry.server, entry.method, entry.name, entry.arguments, entry.result)
    call = tape.call(3)              # by id; large contents are read from the folder
    inventory = tape.inventory("notes", after=3)

`after` is the id of the last call that had begun: ids are the counter of the tape. Large contents are files
in the folder `tape.files` beside it, named by their SHA-256. `TapeFile` writes lines in any order of their
ids, and leaves the file sorted. A tape is complete if its last line is the end; a line that was cut off by a
crash is ignored.
"""

import base64
import binascii
import hashlib
import json
import os
import re
from array import array
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from toolbus.core import version
from toolbus.core.values.records import JSON, JSONObject
from toolbus.core.values.tape_errors import TapeError
from toolbus.schema.values import is_array, is_object

VERSION = 1
LARGEST_TEXT = 64 * 1024
"""Characters; a longer text is a file."""
LARGEST_DATA = 4 * 1024
"""Bytes; longer binary content is a file."""
ListName: TypeAlias = Literal["tools", "resources", "templates", "prompts", "skills", "instructions"]
LISTS: tuple[ListName, ...] = ("instructions", "tools", "resources", "templates", "prompts", "skills")
DATA_KEYS = frozenset({"data", "blob"})
"""The keys of binary content in MCP."""
_TEXT_FILE, _DATA_FILE, _LITERAL = "$text", "$base64", "$json"
_NAME = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedList:
    """One list of a server, as MCP definitions; the first one has `after` 0."""

    server: str
    after: int
    kind: ListName
    items: list[JSON]
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedUpdate:
    """A subscribed resource that changed."""

    server: str
    after: int
    uri: str
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One request to a server, its events and its outcome."""

    id: int
    server: str
    method: str
    """The MCP method: `tools/call`, `resources/read`, `prompts/get` and so on."""
    name: str
    """The server's own name of the tool or prompt; the URI of a resource; the id of a task."""
    arguments: JSONObject
    """The arguments that the server received."""
    events: list[JSON] = field(default_factory=list[JSON])
    """The events during the call, in order. Each is an object with one of these keys:

    `progress`: progress, total, message; `log`: level, logger, data; `ask`: method and params, with the
    `answer`; `task`: its status and message.
    """
    result: JSONObject | None = None
    """As in MCP, without what only one era has. A suspended call has `inputRequests`, a detached task its
    `taskId`."""
    failure: JSONObject | None = None
    """The failure of a call without a result: `error` is its class, `text` its message, then its facts."""
    resumes: int | None = None
    """The id of the suspended call that this one goes on with."""
    answers: JSONObject | None = None
    """The answers to its questions, by the server's keys."""
    at: float = 0.0
    """Seconds since the tape began."""
    seconds: float = 0.0
    """Its duration."""

    @property
    def is_suspended(self) -> bool:
        """Whether it waits for answers, so that there is no result yet."""
        return self.result is not None and "inputRequests" in self.result

    @property
    def questions(self) -> list[JSONObject]:
        """The questions during the call, each with its `answer`."""
        return [event["ask"] for event in map(_object, self.events) if "ask" in event]


Entry: TypeAlias = RecordedList | RecordedUpdate | RecordedCall


def _object(value: JSON) -> dict[str, JSON]:
    return value if is_object(value) else {}


def to_line(entry: Entry) -> dict[str, JSON]:
    """The JSON of one line, its keys in the order of the format."""
    match entry:
        case RecordedList():
            items = {"list": entry.kind, "items": entry.items}
            return {"server": entry.server, "after": entry.after, **items, "at": entry.at}
        case RecordedUpdate():
            return {"server": entry.server, "after": entry.after, "updated": entry.uri, "at": entry.at}
        case RecordedCall():
            target = {"id": entry.id, "server": entry.server, "method": entry.method, "name": entry.name}
            more: dict[str, JSON] = {
                "resumes": entry.resumes,
                "answers": entry.answers,
                "events": entry.events or None,
                "result": entry.result,
                "failure": entry.failure,
            }
            given = {key: value for key, value in more.items() if value is not None}
            times = {"at": entry.at, "seconds": entry.seconds}
            return {**target, "arguments": entry.arguments, **given, **times}


def from_line(line: JSONObject) -> Entry | None:
    """The record of a line; None for the first and the last. KeyError if something is missing."""
    if "tape" in line or "end" in line:
        return None
    at = line.get("at", 0.0)
    if "list" in line:
        return RecordedList(
            server=line["server"], after=line["after"], kind=line["list"], items=line["items"], at=at
        )
    if "updated" in line:
        return RecordedUpdate(server=line["server"], after=line["after"], uri=line["updated"], at=at)
    return RecordedCall(
        id=line["id"],
        server=line["server"],
        method=line["method"],
        name=line["name"],
        arguments=line["arguments"],
        events=line.get("events") or [],
        result=line.get("result"),
        failure=line.get("failure"),
        resumes=line.get("resumes"),
        answers=line.get("answers"),
        at=at,
        seconds=line.get("seconds", 0.0),
    )


def encoded(line: Mapping[str, JSON]) -> bytes:
    """A line of the file."""
    try:
        return json.dumps(line, ensure_ascii=False, separators=(", ", ": ")).encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(line, separators=(", ", ": ")).encode() + b"\n"


class ContentFolder:
    """The large contents of a tape: files in a folder beside it, by digest."""

    def __init__(self, tape: Path) -> None:
        self.path = tape.with_name(f"{tape.stem}.files")

    def packed(self, value: JSON, key: str = "") -> JSON:
        """The value with large contents in files; OSError if one cannot be written."""
        if isinstance(value, str):
            if (
                key in DATA_KEYS
                and len(value) > LARGEST_DATA * 4 // 3
                and (data := decoded_data(value)) is not None
            ):
                return {_DATA_FILE: self._write(data)}
            if len(value) > LARGEST_TEXT:
                return {_TEXT_FILE: self._write(value.encode(errors="surrogatepass"))}
            return value
        if is_array(value):
            return [self.packed(item) for item in value]
        if is_object(value):
            packed = {name: self.packed(item, name) for name, item in value.items()}
            return {_LITERAL: packed} if packed.keys() & {_TEXT_FILE, _DATA_FILE, _LITERAL} else packed
        return value

    def unpacked(self, value: JSON) -> JSON:
        """The value with the contents of its files; OSError or ValueError if one is missing or damaged."""
        if is_array(value):
            return [self.unpacked(item) for item in value]
        if not is_object(value):
            return value
        if len(value) == 1:
            (key, inner), *_ = value.items()
            match key:
                case "$text":
                    return self._read(inner).decode(errors="surrogatepass")
                case "$base64":
                    return base64.b64encode(self._read(inner)).decode()
                case "$json" if is_object(inner):
                    return {name: self.unpacked(item) for name, item in inner.items()}
                case _:
                    pass
        return {name: self.unpacked(item) for name, item in value.items()}

    def _write(self, content: bytes) -> str:
        name = hashlib.sha256(content).hexdigest()
        path = self.path / name
        if not path.exists():
            self.path.mkdir(mode=0o700, exist_ok=True)
            part = path.with_suffix(".part")
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(content)
            part.replace(path)
        return name

    def _read(self, name: JSON) -> bytes:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError("names a content that is not a SHA-256")
        content = (self.path / name).read_bytes()
        if hashlib.sha256(content).hexdigest() != name:
            raise ValueError(f"the content {name} was changed")
        return content

    def keep_only(self, names: set[str]) -> None:
        """Delete the contents that no line names."""
        with suppress(OSError):
            for path in self.path.iterdir():
                if _NAME.fullmatch(path.name) and path.name not in names:
                    path.unlink()
            self.path.rmdir()  # only if nothing is left


def contents_in(line: bytes) -> set[str]:
    """The contents that a line names, and perhaps others."""
    return set(re.findall(r"[0-9a-f]{64}", line.decode(errors="replace"))) if b'"$' in line else set()


def decoded_data(text: str) -> bytes | None:
    """The bytes of a text in base64; None if it is not exactly that."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None


class TapeFile:
    """A tape that is being written, line by line; every method raises OSError if the disk does."""

    def __init__(
        self, path: Path, *, appends: bool = False, prefixes: Mapping[str, str] | None = None
    ) -> None:
        """Begin a new tape, or continue the one in that file."""
        self.path = path
        self.folder = ContentFolder(path)
        self._order: list[tuple[float, int, int]] = []
        """The place in the order, the position and the length of each line."""
        self._names: set[str] = set()
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, flags if appends else flags | os.O_TRUNC, 0o600)
        self.last_id = 0
        self._size = 0
        if appends:
            self._go_on()
        if not self._size:
            named = {"prefixes": dict(prefixes)} if prefixes else {}
            self._append({"tape": VERSION, "toolbus": version(), **named})

    def _go_on(self) -> None:
        """Find the end of the tape in the file, before its end line."""
        with open(self.path, "rb") as file:
            for line in file:
                document = _parsed(line)
                if document is None or "end" in document:
                    break
                self._note(document, line)
        os.ftruncate(self._file, self._size)

    def add(self, entry: Entry) -> None:
        """Write one line."""
        self._append(cast("dict[str, JSON]", self.folder.packed(to_line(entry))))

    def _append(self, document: dict[str, JSON]) -> None:
        text = encoded(document)
        self._write(text)
        self._note(document, text)

    def _note(self, document: JSONObject, text: bytes) -> None:
        place = -1.0 if "tape" in document else document.get("id", document.get("after", 0) + 0.5)
        self.last_id = max(self.last_id, document.get("id", 0))
        self._order.append((place, self._size, len(text)))
        self._names |= contents_in(text)
        self._size += len(text)

    def _write(self, text: bytes) -> None:
        view = memoryview(text)
        at = self._size
        while view:
            written = os.pwrite(self._file, view, at)
            view, at = view[written:], at + written

    def close(self, *, is_complete: bool = True) -> None:
        """Put the lines in order, and mark the tape as complete."""
        try:
            if is_complete:
                if any(a[0] > b[0] for a, b in zip(self._order, self._order[1:], strict=False)):
                    self._sort()
                self._write(encoded({"end": True}))
                self.folder.keep_only(self._names)
        finally:
            os.close(self._file)

    def _sort(self) -> None:
        part = self.path.with_name(f"{self.path.name}.part")
        sorted_file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(sorted_file, "wb", closefd=False) as file:
            for _, at, length in sorted(self._order, key=lambda line: line[0]):
                file.write(os.pread(self._file, length, at))
        os.replace(part, self.path)
        os.close(self._file)
        self._file = sorted_file


def _parsed(line: bytes) -> dict[str, JSON] | None:
    """The document of a line; None if it was cut off or is damaged."""
    if not line.endswith(b"\n"):
        return None
    try:
        document: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, JSON]", document) if isinstance(document, dict) else None


class Tape:
    """A tape that is read: an index of its calls in memory, everything else on disk."""

    def __init__(self, path: str | Path) -> None:
        """Index the file; `TapeError` if it cannot be used."""
        self.path = Path(path)
        self.folder = ContentFolder(self.path)
        self.is_complete = False
        """Whether it has everything: it was closed, and nothing failed."""
        self.has_placeholders = False
        """Whether it names folders that differ from machine to machine."""
        self.version = ""
        """The version of toolbus that wrote it."""
        self.prefixes: JSONObject = {}
        """The prefixes of tool names that the config set, by server."""
        self.servers: list[str] = []
        self.listings: dict[str, list[RecordedList]] = {}
        """The lists of each server, in order."""
        self.updates: dict[str, list[RecordedUpdate]] = {}
        self._places = array("q", [-1])
        """The position of each call, by id."""
        self._file = -1
        try:
            self._file = os.open(self.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            reason = (error.strerror or "cannot be read").lower()
            raise TapeError(
                self.path, reason, "record one with --record, or Toolbus(..., record=...)"
            ) from None
        try:
            self._index()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; any number of times."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def __del__(self) -> None:
        if self._file >= 0:
            self.close()

    def _index(self) -> None:
        for place, document in self._documents():
            try:
                self._note(place, document)
            except (KeyError, TypeError, AttributeError, OverflowError):
                raise self._damaged(place, "is not a line of a tape") from None

    def _documents(self) -> Iterator[tuple[int, dict[str, JSON]]]:
        """Every line with its place, except for a last one that was cut off."""
        place = 0
        with open(self._file, "rb", closefd=False) as file:
            file.seek(0)
            lines = iter(file)
            for line in lines:
                document = _parsed(line)
                if document is None and place and next(lines, None) is None:
                    return
                if document is None and place == 0:
                    raise self._no_tape()
                if document is None:
                    raise self._damaged(place, "is not JSON")
                if place == 0:
                    self._check_version(document)
                has_any = b"${" in line or b'"$text' in line
                self.has_placeholders = self.has_placeholders or has_any
                yield place, document
                place += len(line)
        if place == 0:
            raise TapeError(self.path, "is empty", "record it again")

    def _check_version(self, document: JSONObject) -> None:
        if "tape" not in document:
            raise self._no_tape()
        if document["tape"] != VERSION:
            raise TapeError(
                self.path, f"has format {document['tape']!r}", "update toolbus, or record it again"
            )

    def _no_tape(self) -> TapeError:
        return TapeError(self.path, "is not a tape", "record one with --record, or Toolbus(..., record=...)")

    def _damaged(self, place: int, problem: str) -> TapeError:
        number = os.pread(self._file, place, 0).count(b"\n") + 1
        return TapeError(self.path, f"line {number} {problem}", "restore the file, or record it again")

    def _note(self, place: int, document: dict[str, JSON]) -> None:
        self.is_complete = "end" in document
        if "tape" in document:
            self.version = str(document.get("toolbus", ""))
            self.prefixes = _object(document.get("prefixes"))
        if "server" in document and document["server"] not in self.servers:
            self.servers.append(str(document["server"]))
        if "id" in document:
            missing = document["id"] + 1 - len(self._places)
            if missing > 1_000_000:
                raise OverflowError
            self._places.extend([-1] * missing)
            self._places[document["id"]] = place
            return
        match from_line(document):
            case RecordedList() as listing:
                self.listings.setdefault(listing.server, []).append(listing)
            case RecordedUpdate() as update:
                self.updates.setdefault(update.server, []).append(update)
            case _:
                pass

    def __iter__(self) -> Iterator[Entry]:
        """Every record, in the order of the file."""
        for place, document in self._documents():
            entry = self._entry(place, document)
            if entry is not None:
                yield entry

    def __len__(self) -> int:
        """The number of calls."""
        return sum(place >= 0 for place in self._places)

    @property
    def last_id(self) -> int:
        """The id of the last call; 0 if it has none."""
        return len(self._places) - 1

    def calls(self) -> Iterator[RecordedCall]:
        """The calls, by id."""
        for id_, place in enumerate(self._places):
            if place >= 0:
                yield self.call(id_)

    def call(self, id_: int) -> RecordedCall:
        """One call, with its large contents; KeyError if the tape has none of that id."""
        place = self._places[id_] if 0 < id_ < len(self._places) else -1
        if place < 0:
            raise KeyError(id_)
        line = self._line(place)
        document = _parsed(line)
        entry = None if document is None else self._entry(place, document, has_files=b'"$' in line)
        if not isinstance(entry, RecordedCall):
            raise self._damaged(place, "was changed while the tape was used")
        return entry

    def _line(self, place: int) -> bytes:
        size, line = 4096, b""
        while not line.endswith(b"\n"):
            part = os.pread(self._file, size, place + len(line))
            if not part:
                return line
            end = part.find(b"\n") + 1
            line += part[: end or None]
            size *= 4
        return line

    def _entry(self, place: int, document: dict[str, JSON], *, has_files: bool = True) -> Entry | None:
        try:
            whole = cast("dict[str, JSON]", self.folder.unpacked(document)) if has_files else document
            return from_line(whole)
        except OSError:
            problem = f"names a content that is missing in {self.folder.path.name}"
            raise self._damaged(place, problem) from None
        except ValueError as error:
            raise self._damaged(place, str(error)) from None
        except KeyError as error:
            raise self._damaged(place, f"has no {error}") from None

    def latest(self, server: str, after: int | None = None) -> dict[ListName, list[JSON]]:
        """The lists of a server after a call; by default at the end of the tape."""
        found: dict[ListName, list[JSON]] = {}
        for listing in self.listings.get(server, ()):
            if after is None or listing.after <= after:
                found[listing.kind] = cast("list[JSON]", self.folder.unpacked(listing.items))
        return found
