"""Requests as an HTTP front would show them to the access control."""

import json
from typing import Any

from tests.inside.gateway import Principal, Refusal, RequestFacts

HERE = "127.0.0.1:7400"


def request(
    bearer: str = "",
    *,
    path: str = "/mcp",
    address: str = "127.0.0.1",
    host: str = HERE,
    method: str = "POST",
    **headers: str,
) -> RequestFacts:
    """A request with these headers; `x_forwarded_for` stands for `x-forwarded-for`."""
    known = {"host": host, **({"authorization": f"Bearer {bearer}"} if bearer else {})}
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    return RequestFacts(method=method, path=path, headers={**known, **more}, address=address)


def refused(found: Principal | Refusal | None) -> tuple[int, str]:
    """The status of a refusal, and its reason."""
    assert isinstance(found, Refusal)
    body: dict[str, Any] = json.loads(found.body)
    return found.status, body["error_description"]


class Clock:
    """A time that passes only when a test says so."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self.time = start

    def __call__(self) -> float:
        return self.time

    def pass_(self, seconds: float) -> None:
        self.time += seconds
