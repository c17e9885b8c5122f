"""What a server asks for when it refuses a request: the `WWW-Authenticate` header."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

# A parameter, or the name of a scheme; in a quoted string, a backslash escapes the next character.
_PART = re.compile(
    r"""([!#$%&'*+.^_`|~\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))|([!#$%&'*+.^_`|~\w-]+)"""
)
_SCHEMES = ("bearer", "dpop")
MAX_HEADER = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """The parameters of the Bearer and DPoP challenges of a response."""

    error: str | None = None
    scope: str | None = None
    resource_metadata: str | None = None
    wants_dpop: bool = False

    @property
    def needs_scope(self) -> bool:
        """Whether the token lacks a scope."""
        return self.error == "insufficient_scope"


def challenge_of(headers: Mapping[str, str]) -> Challenge:
    """The challenge of a response, from its headers by name in lower case."""
    schemes: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for name, quoted, plain, scheme in _PART.findall(headers.get("www-authenticate", "")[:MAX_HEADER]):
        if scheme:
            current = schemes.setdefault(scheme.lower(), {})
        else:
            current.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) or plain)
    found = {key: value for scheme in _SCHEMES for key, value in schemes.get(scheme, {}).items()}
    return Challenge(
        error=found.get("error"),
        scope=found.get("scope"),
        resource_metadata=found.get("resource_metadata"),
        wants_dpop="dpop" in schemes,
    )
