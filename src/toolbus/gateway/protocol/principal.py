"""The identity of a client of the gateway."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias

from toolbus.connect.auth.credentials import ClientIdentity

HolderKind: TypeAlias = Literal["local", "key", "subject", "client"]
"""The starter of the gateway; the holder of a key; the subject of a token, or its client without it."""
_LIKE_ANOTHER = re.compile(r"(?:user:)*(?:key|client|subject):")


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A user of the gateway: the holder of a key or of a token, or the user who started it."""

    kind: HolderKind = "local"
    name: str
    """Its own name: of the key, the subject or the client."""
    issuer: str = ""
    """The issuer of its token: the same name is another person at another issuer."""
    user: str = ""
    """The user whose logins and secrets its calls use (`bus.as_user`); empty to use the bus's own."""
    view: str = "default"
    """The view of the config that it gets."""
    server: str = ""
    """The one server of that view that it gets, under the server's own names; empty for all of the view."""
    expires: float | None = None
    """The expiry of its key or token, in seconds since the epoch."""
    key: str = field(default="", repr=False)
    """The SHA-256 of its key, or the grant of its sign-in; empty for others."""
    passed: ClientIdentity | None = field(default=None, repr=False)
    """Its forwarded identity; None if no server needs it."""

    @property
    def id(self) -> str:
        """One text for each kind, name and issuer, and never the same for two of them."""
        text = self.name if self.kind == "local" else f"{self.kind}:{self.name}"
        return f"{text} of {self.issuer}" if self.issuer else text  # a URL, which has no space

    @property
    def caller(self) -> str:
        """The name in policies, quotas, approvals and audits; empty for the starter of the gateway."""
        return self.user or ("" if self.kind == "local" else self.id)

    @property
    def holder(self) -> str:
        """The holder of the credential, for quotas: a new key with an old name is somebody else."""
        return f"{self.id} {self.key}" if self.key else self.id

    @property
    def owner(self) -> str:
        """The owner of its sessions, calls and tasks: with another forwarded identity, somebody else."""
        text = f"{self.id} {self.key}" if self.key else self.id
        return text if self.passed is None else f"{text} {self.passed.digest}"

    def is_like(self, other: "Principal") -> bool:
        """Whether it is the same one and gets the same; a new token may expire at another time."""
        return (self.owner, self.user, self.place) == (other.owner, other.user, other.place)

    @property
    def place(self) -> tuple[str, str]:
        """The view, and the server if it asked for one alone."""
        return self.view, self.server

    @property
    def bare(self) -> "Principal":
        """The same one without its forwarded identity."""
        return self if self.passed is None else replace(self, passed=None)

    @property
    def lasting(self) -> "Principal":
        """The same one, whenever its token expires: a new token is not another principal."""
        return self if self.expires is None else replace(self, expires=None)

    def json(self, *, with_token: bool = False) -> dict[str, Any]:
        """The principal as JSON; with the token that is passed on only if nobody else can read it."""
        passed = None if self.passed is None else self.passed.json(with_token=with_token)
        return {**{one.name: getattr(self, one.name) for one in fields(self)}, "passed": passed}

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> "Principal":
        """The principal in its JSON; KeyError if another version wrote it."""
        given: dict[str, Any] = {one.name: stored[one.name] for one in fields(cls)}
        if given["passed"] is not None:
            given["passed"] = ClientIdentity.read(given["passed"])
        return cls(**given)


LOCAL = Principal(name="local")
"""The user who started the gateway: its client over stdio, and local clients without authentication."""


def subject_user(name: str) -> str:
    """The user of a token with this name; never a name that stands for a key or a client.

    Those are callers, too (`Principal.caller`): the subject `key:ann` is not the key `ann`.
    """
    return f"user:{name}" if _LIKE_ANOTHER.match(name) else name


def client_user(name: str) -> str:
    """The user of a token of a client, without a subject: not the user of that name."""
    return f"client:{name}"
