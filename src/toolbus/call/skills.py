"""Read the files of skills: only files that the entry lists, and only as it describes them.

A skill may change while a model works with it. The files that are read then belong to the entry with which
its SKILL.md was loaded, or are refused.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Protocol

from toolbus.core.operation.operation import Caller, Operation
from toolbus.core.values.errors import SkillRejected
from toolbus.core.values.records import Embedded, ToolResult
from toolbus.core.values.skills import MANIFEST, MOST_BYTES, Skill, file_uri, frontmatter_problem, path_within
from toolbus.shape.as_tools import skill_blocks

MOST_LOADED = 10_000
"""The number of loaded skills to remember."""


class SkillRequests(Protocol):
    """The requests to one server that reading a skill takes."""

    async def connect(self) -> None: ...

    async def get_skill(self, operation: Operation, uri: str) -> Skill: ...

    async def read_resource(
        self, operation: Operation, uri: str, size: Callable[[], int | None]
    ) -> tuple[Embedded, ...]: ...


class SkillReader:
    """Reads the files of skills, for programs and for models."""

    def __init__(self, server: Callable[[Operation], SkillRequests]) -> None:
        self._server = server

    async def read(self, operation: Operation) -> ToolResult:
        """Read one file of a skill, by default its SKILL.md."""
        asked = operation.arguments
        uri, path = str(asked["uri"]), str(asked.get("file") or MANIFEST)
        for_model = bool(operation.spec.input_schema)
        skill = await self._skill(operation, uri)
        held = self._held(operation, uri, path) if for_model else asked.get("digest")
        if held is not None and held != skill.digest:
            raise _rejected(skill, f"it has changed since it was loaded; load its {MANIFEST} again")
        content = await self._file(operation, skill, path)
        if for_model and path == MANIFEST:
            _remember(_loaded(operation), (operation.caller, skill.server, uri), skill.digest)
        blocks = skill_blocks(skill, path, content) if for_model else (content,)
        return ToolResult(content=blocks, value=skill)

    async def _skill(self, operation: Operation, uri: str) -> Skill:
        """The entry: listed, or else asked for, because a list need not be complete."""
        if (found := self._find(operation, uri)) is not None:
            return found
        server = self._server(operation)
        await server.connect()
        return self._find(operation, uri) or await server.get_skill(operation, uri)

    def _find(self, operation: Operation, uri: str) -> Skill | None:
        assert operation.tenant is not None, "an operation is made through a view"
        inventory = operation.tenant.listed(operation).get(operation.server)
        skills = () if inventory is None else inventory.skills
        return next((skill for skill in skills if skill.uri == uri), None)

    def _held(self, operation: Operation, uri: str, path: str) -> str | None:
        if path == MANIFEST:
            return None
        return _loaded(operation).get((operation.caller, operation.server, uri))

    async def _file(self, operation: Operation, skill: Skill, path: str) -> Embedded:
        uri, expected = file_uri(skill.uri, path), skill.file(path)
        if path_within(skill.uri, uri) is None:
            raise _rejected(skill, f"{path!r} is not a path within the skill")
        if skill.files is not None and expected is None:
            raise _rejected(skill, f"it has no file {path!r}; it has {_named(skill.paths)}")
        size = MOST_BYTES if expected is None else expected.size
        parts = await self._server(operation).read_resource(operation, uri, lambda: expected and size)
        if len(parts) != 1:
            raise _rejected(skill, f"{path!r} came in {len(parts)} parts instead of one")
        part = parts[0]
        try:
            raw = part.data if part.data is not None else (part.text or "").encode()
        except UnicodeEncodeError:
            raise _rejected(skill, f"{path!r} is not text, although it was sent as text") from None
        if expected is None and len(raw) > size:
            raise _rejected(skill, f"{path!r} has more than {size >> 20} MiB")
        if expected is not None and len(raw) != size:
            raise _rejected(skill, f"{path!r} has {len(raw):,} bytes, but its entry lists {size:,}{_STEP}")
        if expected is not None and f"sha256:{sha256(raw).hexdigest()}" != expected.digest:
            raise _rejected(skill, f"the content of {path!r} does not match its digest{_STEP}")
        if path == MANIFEST and (problem := _manifest_problem(skill, raw)) is not None:
            raise _rejected(skill, problem)
        return Embedded(uri=uri, text=part.text, data=part.data, mime_type=part.mime_type)


_STEP = "; it may have changed since it was listed, or on the way"


def _loaded(operation: Operation) -> dict[tuple[Caller, str, str], str]:
    """The digests of the skills that models of the tenant have loaded."""
    assert operation.tenant is not None, "an operation is made through a view"
    return operation.tenant.loaded_skills


def _remember(loaded: dict[tuple[Caller, str, str], str], key: tuple[Caller, str, str], digest: str) -> None:
    loaded.pop(key, None)
    if len(loaded) >= MOST_LOADED:
        del loaded[next(iter(loaded))]
    loaded[key] = digest


def _manifest_problem(skill: Skill, raw: bytes) -> str | None:
    try:
        return frontmatter_problem(raw.decode(), skill.frontmatter)
    except UnicodeDecodeError:
        return f"its {MANIFEST} is not text"


def _named(paths: tuple[str, ...]) -> str:
    more = f" and {len(paths) - 10} more" if len(paths) > 10 else ""
    return ", ".join(paths[:10]) + more


def _rejected(skill: Skill, reason: str) -> SkillRejected:
    return SkillRejected(skill.server, skill.uri, reason)
