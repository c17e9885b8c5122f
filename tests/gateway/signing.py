"""An authorization server whose keys are ours, so that it can sign what a real one never would."""

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "https://tools.example.com/mcp"
_rsa_keys: dict[str, rsa.RSAPrivateKey] = {}
"""By their names; to make one takes long."""


def _rsa_key(name: str) -> rsa.RSAPrivateKey:
    if name not in _rsa_keys:
        _rsa_keys[name] = rsa.generate_private_key(65537, 2048)
    return _rsa_keys[name]


def _key(algorithm: str, name: str) -> Any:
    match algorithm:
        case "RS256":
            return _rsa_key(name)
        case "ES256":
            return ec.generate_private_key(ec.SECP256R1())
        case _:
            return ed25519.Ed25519PrivateKey.generate()


WRITERS: dict[str, Any] = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}


class Signer:
    """The keys, and how often each document was asked for."""

    def __init__(self) -> None:
        self.issuer = ""
        self.keys: dict[str, Any] = {}
        self.published: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.status = 200
        self.granted: dict[str, Any] = {}
        """The response to a request for tokens."""

    def add_key(self, algorithm: str, kid: str | None = None) -> dict[str, Any]:
        """Make a key and publish it; returns it as it is published."""
        name = algorithm if kid is None else kid
        self.keys[name] = key = _key(algorithm, name)
        public = {**json.loads(WRITERS[algorithm].to_jwk(key.public_key())), "kid": name, "use": "sig"}
        self.published.append(public)
        return public

    def token(
        self, key: str = "RS256", *, algorithm: str | None = None, headers: Any = None, **claims: Any
    ) -> str:
        """A token of ann, good for an hour unless the claims say otherwise; None leaves a claim out."""
        now = time.time()
        usual = {"iss": self.issuer, "aud": AUDIENCE, "sub": "ann", "exp": now + 3600, "scope": "tools"}
        content = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        signed_as = algorithm or key.partition(" ")[0]
        return jwt.encode(
            content, self.keys[key], signed_as, {"kid": key, "typ": "at+jwt", **(headers or {})}
        )


@contextmanager
def signing() -> Generator[Signer]:
    """Serve the metadata and the keys on a free port of loopback until the block ends."""
    signer = Signer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            signer.asked.append(self.path)
            documents: dict[str, Any] = {
                "/.well-known/oauth-authorization-server": {
                    "issuer": signer.issuer,
                    "jwks_uri": f"{signer.issuer}/jwks",
                    "authorization_endpoint": f"{signer.issuer}/authorize",
                    "token_endpoint": f"{signer.issuer}/token",
                },
                "/jwks": {"keys": signer.published},
            }
            self.answer(documents.get(self.path))

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.answer(signer.granted)

        def answer(self, found: Any) -> None:
            self.send_response(signer.status if found else 404)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  as in the base
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    signer.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=[0.02])
    thread.start()
    try:
        yield signer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
