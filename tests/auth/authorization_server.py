"""A real authorization server, npm's `oidc-provider`, in a process of its own."""

import json
import subprocess
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.interop.servers import INTEROP, NODE
from tests.patience import PATIENCE

MODULES = INTEROP / "oauth" / "node_modules"
SCRIPT = Path(__file__).with_suffix(".mjs")


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """Its address, and its counts of requests."""

    issuer: str

    def counts(self) -> dict[str, int]:
        """The number of requests it answered, by route, grant type and status: `token refresh_token 200`."""
        return self._ask()["counts"]

    def count(self, beginning: str) -> int:
        """The number of requests it answered whose key begins like this."""
        return sum(number for key, number in self.counts().items() if key.startswith(beginning))

    def secrets(self) -> set[str]:
        """Every code, token and client secret that it issued, and every code verifier that it was sent."""
        return set(self._ask()["secrets"])

    def spoil(self, **faults: Any) -> None:
        """Have these faults from now on, and no others.

        `metadata` is laid over its metadata (None removes a key), `padding` makes it that much longer, and
        `redirect` sends its readers elsewhere. `iss` replaces the one in redirects (None removes it). With
        `status` the token endpoint answers every request so, with `answer` as the body. New tokens live for
        `lifetime` seconds, and are no JWTs with `format="opaque"`.
        """
        self._ask(json.dumps(faults).encode())

    def reset(self) -> None:
        """Forget the counts and the faults, but not who has signed in."""
        self._ask(method="DELETE")

    def _ask(self, body: bytes | None = None, method: str | None = None) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.issuer}/test/", body, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return json.load(response)


@contextmanager
def authorization_server(
    *,
    lifetime: int = 3600,
    refresh_lifetime: int = 3600,
    refresh_tokens: bool = True,
    rotate: bool = True,
    registration: bool = True,
    dpop: bool = True,
    dpop_nonce: bool = False,
    clients: Sequence[Mapping[str, Any]] = (),
    documents: Mapping[str, Any] | None = None,
    people: Mapping[str, Any] | None = None,
    conform: bool = True,
) -> Generator[AuthorizationServer]:
    """Start one, and end it with the block; lifetimes of tokens are in seconds.

    `clients` are registered already; `documents` are the metadata documents of clients, by their URL.
    `people` have more claims, by name: in the user info, and in ID tokens if those do not `conform`.
    """
    settings = {
        "modules": str(MODULES),
        "lifetime": lifetime,
        "refresh_lifetime": refresh_lifetime,
        "refresh_tokens": refresh_tokens,
        "rotate": rotate,
        "registration": registration,
        "dpop": dpop,
        "dpop_nonce": dpop_nonce,
        "clients": clients,
        "documents": documents or {},
        "people": people or {},
        "conform": conform,
        "scopes": ["tools", "admin"],
    }
    process = subprocess.Popen(
        [NODE, str(SCRIPT)],
        stdin=subprocess.PIPE,  # it ends when nobody holds the other end any more
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(settings) + "\n")
        process.stdin.flush()
        port = process.stdout.readline()
        if not port:
            _, said = process.communicate()
            raise AssertionError(f"the authorization server ended at once: {said}")
        try:
            yield AuthorizationServer(f"http://127.0.0.1:{int(port)}")
        finally:
            process.kill()
            process.communicate()
