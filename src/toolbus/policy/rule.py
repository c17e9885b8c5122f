"""One rule of a policy, ready to be compared with targets: by patterns, by a tool's hints, by arguments.

The hints of a trusted server are used as given. An untrusted server might claim anything, so its tools are
always treated as destructive, writing and open-world. Its `read-only` and `idempotent` hints are mere claims.

Patterns are globs on `server/name`. A name is matched as it is. A rule that asks or denies also matches
look-alike names (another case, similar or hidden characters) and any reading of a URI. A rule that allows
matches a URI only if it matches however the URI is read.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from typing import Literal, NamedTuple, TypeAlias, cast
from urllib.parse import unquote

from toolbus.config.settings.policy import Action, Hint, PolicyRule
from toolbus.core.fast_init import with_fast_init
from toolbus.core.text.lookalikes import looks
from toolbus.core.values.argument_restore import EMPTY
from toolbus.core.values.records import JSON, JSONObject, ToolSpec, marks_read_only
from toolbus.schema.validator import Validator
from toolbus.schema.values import entries_of, items_of

Kind: TypeAlias = Literal["tool", "resource", "prompt", "request"]
STRICTNESS: dict[Action, int] = {"allow": 0, "ask": 1, "deny": 2}


@with_fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTarget:
    """The target of an operation: a tool, a resource or a prompt of a server, or the server's own request."""

    kind: Kind
    server: str
    name: str
    """The server's own name of the tool or prompt; a URI; `elicitation`, `sampling` or `roots`."""
    spec: ToolSpec | None = None
    """The tool, for its hints; without it, the target has no hints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision of a policy."""

    action: Action
    rule: int | None = None
    """The position of the rule in the policy; None if no rule matched."""
    reason: str = ""
    """The reason that the rule gives."""

    @property
    def label(self) -> str | None:
        return None if self.rule is None else label(self.rule)


UNMATCHED = Verdict(action="allow")
"""Without a rule, everything is allowed."""


def label(rule: int) -> str:
    return f"policy[{rule}]"


# Hints

Holds: TypeAlias = Literal["yes", "word", "no"]
"""`word`: only by the word of a server that is not trusted."""


def holds(hint: Hint, spec: ToolSpec | None) -> Holds:
    """Whether a hint is true of a tool."""
    if spec is None:
        return _claimed(hint, EMPTY)
    return _stated(hint, spec.annotations) if spec.trusted else _claimed(hint, spec.annotations)


def _stated(hint: Hint, annotations: JSONObject) -> Holds:
    """The hint as a trusted server states it; the defaults come from the protocol."""
    reads_only = marks_read_only(annotations)
    match hint:
        case "read-only":
            found = reads_only
        case "writes":
            found = not reads_only
        case "destructive":
            found = not reads_only and annotations.get("destructiveHint") is not False
        case "idempotent":
            found = annotations.get("idempotentHint") is True
        case "open-world":
            found = annotations.get("openWorldHint") is not False
    return "yes" if found else "no"


def _claimed(hint: Hint, annotations: JSONObject) -> Holds:
    match hint:
        case "destructive" | "writes" | "open-world":
            return "yes"
        # A claim counts even beside one that contradicts it: it can only make the policy stricter.
        case "read-only":
            return "word" if annotations.get("readOnlyHint") is True else "no"
        case "idempotent":
            return "word" if annotations.get("idempotentHint") is True else "no"


# Patterns


class _Parts(NamedTuple):
    """A pattern, divided between server and name."""

    server: Callable[[str], bool]
    name: Callable[[str], bool]
    looks: Callable[[str], bool]
    """Whether it matches a name by what both look like."""


class Pattern:
    """One glob. A `*` for the server never reaches into the name; one in the name also matches slashes."""

    def __init__(self, text: str, *, loosens: bool) -> None:
        """`loosens`: of a rule that allows."""
        self.text = text
        self._loosens = loosens
        self._divided: dict[int, _Parts | None] = {}

    def names(self, alias: str) -> bool:
        """Whether it may match anything of this server."""
        return any(parts.server(alias) for parts in self._ways(alias))

    def matches(self, target: PolicyTarget) -> bool:
        """Whether it matches the server and the name."""
        return any(
            parts.server(target.server) and self._fits(parts, target) for parts in self._ways(target.server)
        )

    def matches_as_written(self, target: PolicyTarget) -> bool:
        """Whether it matches the name itself, and not only one that it resembles."""
        ways = self._ways(target.server)
        return any(parts.server(target.server) and parts.name(target.name) for parts in ways)

    def _fits(self, parts: _Parts, target: PolicyTarget) -> bool:
        name = target.name
        if self._loosens:
            return parts.name(name) and (target.kind != "resource" or self._fits_every_reading(parts, name))
        if parts.name(name) or parts.looks(name):
            return True
        if target.kind != "resource":
            return False
        readings = spellings(name)
        return readings is None or any(map(parts.looks, readings))

    def _fits_every_reading(self, parts: _Parts, uri: str) -> bool:
        if self.text.endswith(f"/{uri}"):
            return True  # exactly this one was meant
        readings = spellings(uri)
        return readings is not None and all(map(parts.name, readings))

    def _ways(self, alias: str) -> list[_Parts]:
        """The ways to divide it for a server: one way, unless the alias has slashes itself."""
        ways = (self._division(number) for number in {1, alias.count("/") + 1})
        return [parts for parts in ways if parts is not None]

    def _division(self, number: int) -> _Parts | None:
        """Divided at the slash of this number; None if there are fewer."""
        if number not in self._divided:
            self._divided[number] = self._divide(number)
        return self._divided[number]

    def _divide(self, number: int) -> _Parts | None:
        if self.text == "*":
            return _Parts(_glob("*"), _glob("*"), _glob("*"))
        steps = self.text.split("/")
        if len(steps) <= number:
            return None
        server, name = "/".join(steps[:number]), "/".join(steps[number:])
        return _Parts(_glob(server), _glob(name), _looks_like(name))


def _looks_like(pattern: str) -> Callable[[str], bool]:
    globs = [_glob(form) for form in looks(pattern)]

    def is_alike(text: str) -> bool:
        # Only a name with other than small letters can have an `l` that is an `I`, or the reverse.
        is_plain = text.isascii() and text == text.lower()
        forms = looks(text)[:2] if is_plain else looks(text)
        return any(glob(form) for glob, form in zip(globs, forms, strict=False))

    return is_alike


def _glob(pattern: str) -> Callable[[str], bool]:
    """Like `fnmatchcase`, whose cache is too small for many rules; an equal text always matches."""
    match = re.compile(translate(pattern)).match
    return lambda text: text == pattern or match(text) is not None


_MOST_DECODINGS = 4
_IGNORED = str.maketrans("", "", "\t\r\n")
"""Characters that parsers of URLs remove, wherever they are."""


def spellings(uri: str) -> tuple[str, ...] | None:
    """The possible readings of a URI by a server; None if it is encoded too many times to tell."""
    found: dict[str, None] = {}
    text = uri.translate(_IGNORED).strip()
    for _ in range(_MOST_DECODINGS):
        found[_resolved(text)] = None
        decoded = unquote(text)
        if decoded == text:
            return tuple(found)
        text = decoded
    return None


def _resolved(uri: str) -> str:
    """Without `.`, `..` and empty steps, and with the parts in small letters whose case does not count."""
    scheme, colon, rest = uri.replace("\\", "/").partition(":")
    if not colon:
        scheme, rest = "", scheme
    authority = ""
    if rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        authority = "//" + ("" if authority.lower() == "localhost" else authority.lower())
        rest = slash + rest
    if "//" not in rest and "/." not in rest:
        return f"{scheme.lower()}{colon}{authority}{rest}"
    steps: list[str] = []
    parts = rest.split("/")
    for step in parts:
        if step == "..":
            del steps[-1:]
        elif step and step != ".":
            steps.append(step)
    start = "/" if rest.startswith("/") else ""
    end = "/" if steps and parts[-1] in ("", ".", "..") else ""
    return f"{scheme.lower()}{colon}{authority}{start}{'/'.join(steps)}{end}"


# The rule

SELECTOR: Mapping[Kind, str] = {
    "tool": "tools",
    "resource": "resources",
    "prompt": "prompts",
    "request": "requests",
}
"""The key of a rule for each kind of target."""
_BY_NAME = frozenset(["type", "properties", "required", "title", "description"])
"""Keywords that are about arguments of given names only."""


class Rule:
    """One rule, with its patterns and schema compiled."""

    def __init__(self, index: int, rule: PolicyRule) -> None:
        self.index = index
        self.config = rule
        self.verdict = Verdict(action=rule.do, rule=index, reason=rule.reason or "")
        self.loosens = rule.do == "allow"
        self.patterns: dict[Kind, tuple[Pattern, ...]] = {
            kind: tuple(Pattern(text, loosens=self.loosens) for text in getattr(rule, key))
            for kind, key in SELECTOR.items()
        }
        self.validator = Validator(rule.arguments) if rule.arguments else None
        """The condition on arguments; None if there is none."""
        self._named = _named(rule.arguments)

    def selects(self, target: PolicyTarget) -> bool:
        """Whether it is about this target, by its patterns."""
        if self.config.selects:
            return any(pattern.matches(target) for pattern in self.patterns[target.kind])
        return target.kind == "tool" if self.config.hint else target.kind != "request"

    def holds(self, target: PolicyTarget) -> Holds:
        """Whether its patterns and its hint match."""
        if not self.selects(target):
            return "no"
        hint = self.config.hint
        return "yes" if hint is None else holds(hint, target.spec)

    def accepts(self, arguments: Mapping[str, JSON]) -> bool:
        """Whether its condition on arguments holds; an unverifiable value is decided the strict way."""
        found = self.checked(arguments)
        return not self.loosens if found is None else found

    def checked(self, arguments: Mapping[str, JSON]) -> bool | None:
        """Whether its condition on arguments holds; None if that cannot be checked."""
        if self.validator is None:
            return True
        given = cast("JSON", arguments if isinstance(arguments, dict) else dict(arguments))
        found = self.validator.accepts(given)
        if found is None and self._named is not None:
            # Too large, perhaps only because of an argument that the condition is not about.
            return self.validator.accepts({name: given[name] for name in self._named if name in given})
        return found


def _named(schema: JSONObject | None) -> frozenset[str] | None:
    """The arguments that a condition is about; None if it may be about any."""
    if schema is None or not _BY_NAME.issuperset(schema):
        return None
    return frozenset([*entries_of(schema.get("properties")), *items_of(schema.get("required"))])
