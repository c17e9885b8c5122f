"""Skills: instructions for a task that a server offers as files, and the entry that describes them.

An entry names every file of a skill with its digest, so files that are read later can be compared with
it. It is checked when it enters: the files lie within the skill, and are neither too many nor too large.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from toolbus.core.text.canonical import digest_of, encoding_problem
from toolbus.core.text.text import cleaned
from toolbus.schema.values import JSON, JSONObject, is_array, is_object

if TYPE_CHECKING:
    import yaml

SKILLS = "io.modelcontextprotocol/skills"
"""The extension that a server declares."""
MANIFEST = "SKILL.md"
READ_SKILL = "toolbus/read_skill"
"""The route of an operation that reads a file of a skill, compared with the skill's entry."""
# What every host has to accept, by the extension, is also the most that we accept.
MOST_FILES = 512
MOST_BYTES = 16 * 1024 * 1024
LONGEST_FRONTMATTER = 16_000
"""Characters, as JSON: names and descriptions take some hundreds."""
LONGEST_URI = 2_000
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_NAME = 64
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFile:
    """A file of a skill, as its entry describes it."""

    uri: str
    digest: str
    """`sha256:` and 64 hexadecimal digits, of the raw content."""
    size: int
    """The size in bytes."""


@dataclass(frozen=True, kw_only=True)
class Skill:
    """A skill of a server. It is identified by server and URI: names are not unique."""

    server: str
    uri: str
    """The URI of its SKILL.md."""
    name: str
    description: str
    frontmatter: JSONObject = field(repr=False)
    """All that the author wrote at the top of SKILL.md. It grants nothing, also not by `allowed-tools`."""
    files: tuple[SkillFile, ...] | None = field(repr=False)
    """All its files, also SKILL.md; None if they are generated when they are read: nothing is compared."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Its files as paths within the skill."""
        return tuple(path_within(self.uri, file.uri) or "" for file in self.files or ())

    @cached_property
    def digest(self) -> str:
        """The digest of its entry; another one means that the skill has changed."""
        return digest_of(entry_of(self))

    def file(self, path: str) -> SkillFile | None:
        """The file at a path within the skill."""
        uri = file_uri(self.uri, path)
        return next((file for file in self.files or () if file.uri == uri), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSkill:
    """A skill with its instructions, which are the server's, not the user's."""

    skill: Skill
    text: str
    """SKILL.md as it is."""
    instructions: str
    """The same without the frontmatter."""


class InvalidSkill(ValueError):
    """An entry that breaks the rules of the extension; says how."""


def entry_of(skill: Skill) -> dict[str, JSON]:
    """The entry as a server sends it, its files sorted."""
    files = sorted(skill.files or (), key=lambda file: file.uri)
    return {
        "uri": skill.uri,
        "frontmatter": dict(skill.frontmatter),
        "resources": "dynamic"
        if skill.files is None
        else [{"uri": file.uri, "digest": file.digest, "size": file.size} for file in files],
    }


def skill_of(server: str, entry: JSON) -> Skill:
    """The record of an entry; `InvalidSkill` if it must not be used."""
    if not is_object(entry):
        raise InvalidSkill("its entry is not an object")
    uri, frontmatter, resources = entry.get("uri"), entry.get("frontmatter"), entry.get("resources")
    if not isinstance(uri, str) or not is_object(frontmatter):
        raise InvalidSkill("its entry has no uri or no frontmatter")
    _check_uri(uri)
    if (fault := encoding_problem(frontmatter)) is not None:
        raise InvalidSkill(f"its frontmatter {fault}")
    if len(str(frontmatter)) > LONGEST_FRONTMATTER:
        raise InvalidSkill(f"its frontmatter has more than {LONGEST_FRONTMATTER:,} characters")
    name, description = frontmatter.get("name"), frontmatter.get("description")
    if not isinstance(name, str) or not isinstance(description, str) or not description.strip():
        raise InvalidSkill("its frontmatter has no name or no description")
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise InvalidSkill("its name is not made of a-z, 0-9 and single hyphens, at most 64")
    if uri.split("/")[-2:] != [name, MANIFEST]:
        raise InvalidSkill(f"its URI does not end with /{name}/{MANIFEST}")
    return Skill(
        server=server,
        uri=uri,
        name=name,
        description=cleaned(description),
        frontmatter=frontmatter,
        files=_files(uri, resources),
    )


def shown_uri(entry: JSON) -> str:
    """The URI of an entry that may be invalid, for a message."""
    uri = entry.get("uri") if is_object(entry) else None
    return cleaned(uri)[:200] if isinstance(uri, str) else "(no URI)"


def file_uri(skill: str, path: str) -> str:
    """The URI of a file, given the URI of the skill and the path within it."""
    return f"{skill.removesuffix(MANIFEST)}{path}"


def path_within(skill: str, uri: str) -> str | None:
    """The path of a file within a skill; None if it lies outside, even by a `..` that is spelled with %."""
    root = skill.removesuffix(MANIFEST)
    path = uri.removeprefix(root)
    if not uri.startswith(root) or not _is_plain_path(path):
        return None
    return path


def _check_uri(uri: str) -> None:
    scheme, mark, path = uri.partition("://")
    if len(uri) > LONGEST_URI or not mark or not scheme.isascii() or not _is_plain_path(path):
        raise InvalidSkill("its URI is not one of a file in a folder, such as skill://name/SKILL.md")


def _is_plain_path(path: str) -> bool:
    """Whether every segment is a name, however it is decoded."""
    if cleaned(path) != path or any(mark in path for mark in "?#\\ \n\t"):
        return False
    decoded = unquote(unquote(path))  # twice: servers decode, and so may what is behind them
    if decoded.count("/") != path.count("/") or "\\" in decoded or cleaned(decoded) != decoded:
        return False
    return all(segment.strip() not in ("", ".", "..") for segment in decoded.split("/"))


def _files(skill: str, resources: JSON) -> tuple[SkillFile, ...] | None:
    if resources == "dynamic":
        return None
    if not is_array(resources):
        raise InvalidSkill('its resources are neither a list nor "dynamic"')
    if len(resources) > MOST_FILES:
        raise InvalidSkill(f"it has more than {MOST_FILES} files")
    files = tuple(_file(skill, one) for one in cast("Iterable[Any]", resources))
    uris = {file.uri for file in files}
    if len(uris) < len(files):
        raise InvalidSkill("it lists a file twice")
    if skill not in uris:
        raise InvalidSkill(f"it does not list its {MANIFEST}")
    if sum(file.size for file in files) > MOST_BYTES:
        raise InvalidSkill(f"its files have more than {MOST_BYTES >> 20} MiB")
    return files


def _file(skill: str, resource: JSON) -> SkillFile:
    match resource:
        case {"uri": str(uri), "digest": str(digest), "size": int(size)} if not isinstance(size, bool):
            pass
        case _:
            raise InvalidSkill("one of its files has no uri, digest or size")
    if len(uri) > LONGEST_URI or path_within(skill, uri) is None:
        raise InvalidSkill(f"it lists {cleaned(uri)[:200]!r}, which is not within the skill")
    if not _DIGEST.fullmatch(digest) or size < 0:
        raise InvalidSkill(f"the digest or size of {uri!r} is invalid")
    return SkillFile(uri=uri, digest=digest, size=size)


_BLOCK = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_LONGEST = 2 * LONGEST_FRONTMATTER
"""Characters; YAML may take more than the same value as JSON."""


def body_of(text: str) -> str:
    """The text of a SKILL.md without its frontmatter."""
    found = _BLOCK.match(text)
    return text if found is None else text[found.end() :].lstrip("\r\n")


def frontmatter_problem(text: str, entry: JSON) -> str | None:
    """The first difference between the frontmatter of a SKILL.md and its entry; None if they agree.

    YAML libraries read `yes`, `1.0` and dates differently. All values that some library may read from the
    same text are treated as equal: a person who approves an entry reads the same characters.
    """
    import yaml  # only here: it takes a while

    found = _BLOCK.match(text[: _LONGEST + 100])
    if found is None:
        return f"it has no frontmatter, or one of more than {_LONGEST:,} characters"
    try:
        loader = yaml.SafeLoader(found[1])
        return _difference(loader.get_single_node(), entry, "frontmatter")
    except (yaml.YAMLError, ValueError, RecursionError):
        return "its frontmatter is not YAML that can be read"


def _difference(node: "yaml.Node | None", value: JSON, at: str) -> str | None:
    import yaml

    if isinstance(node, yaml.MappingNode) and is_object(value):
        keys = [key.value if isinstance(key, yaml.ScalarNode) else None for key, _ in node.value]
        if len(set(keys)) < len(keys):
            return f"its {at} has a key twice"
        if set(keys) != set(value):
            odd = sorted(str(key) for key in set(keys) ^ set(value))
            return f"its {at} differs from its entry in {', '.join(map(repr, odd[:5]))}"
        pairs = [(inner, value[key.value], f"{at}.{key.value}") for key, inner in node.value]
    elif isinstance(node, yaml.SequenceNode) and is_array(value) and len(node.value) == len(value):
        pairs = [
            (inner, item, f"{at}[{n}]") for n, (inner, item) in enumerate(zip(node.value, value, strict=True))
        ]
    elif isinstance(node, yaml.ScalarNode) and _is_same(node, value):
        return None
    else:
        return f"its {at} differs from its entry"
    return next(filter(None, (_difference(*pair) for pair in pairs)), None)


def _is_same(node: "yaml.ScalarNode", value: JSON) -> bool:
    text: str = node.value
    if isinstance(value, str):
        # A date may have been given a time.
        return value == text or (node.tag.endswith(":timestamp") and value.startswith(text[:10]))
    if node.style in ("'", '"', "|", ">"):
        return False
    return any(type(value) is type(one) and value == one for one in _readings(node.tag, text))


def _readings(tag: str, text: str) -> list[Any]:
    """The values other than text that libraries for YAML 1.1 and 1.2 read from a plain scalar."""
    import yaml

    kind = tag.rpartition(":")[2]
    readings: list[Any] = []
    if kind in ("null", "bool", "int", "float"):
        one = yaml.safe_load(text) if text else None
        readings.append(one)
        if isinstance(one, float) and one.is_integer():
            readings.append(int(one))  # JSON of some languages has one kind of number
    with suppress(ValueError):
        readings += [int(text)] if re.fullmatch(r"[-+]?\d+", text) else [float(text)]
    return readings
