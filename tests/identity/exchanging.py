"""An authorization server that exchanges tokens (RFC 8693): it checks the client and the token."""

import base64
import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, unquote

import jwt

from tests.gateway.signing import AUDIENCE, Signer

GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
SECRET = "the secret of the gateway: + % and /"


class Exchanging(Signer):
    """The keys, the clients, and every exchange."""

    def __init__(self) -> None:
        super().__init__()
        self.exchanged: list[dict[str, str]] = []
        """The form of every request that was granted."""
        self.issued: list[str] = []
        self.rejected: list[str] = []
        self.lifetime = 3600
        self.trusted = ""
        """The URL of a gateway whose tokens are accepted."""
        self.answer: dict[str, Any] | None = None
        """The token endpoint's answer instead of a token, with this status."""
        self.answer_status = 400
        self.overlay: dict[str, Any] = {}
        """Members that are laid over the answer."""
        self.gate: Event | None = None
        """The event that an exchange waits for."""
        self.add_key("RS256")

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "grant_types_supported": [GRANT],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "private_key_jwt"],
        }

    def exchange(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """The status and the answer of the token endpoint."""
        if self.gate is not None:
            self.gate.wait(300)
        if self.answer is not None:
            return self.answer_status, self.answer
        try:
            name = self._client(form, authorization)
            if form.get("grant_type") != GRANT or form.get("subject_token_type") != ACCESS_TOKEN:
                raise LookupError("unsupported_grant_type")
            claims = self._claims(form.get("subject_token", ""))
        except LookupError as error:
            self.rejected.append(str(error.args[0]))
            return 401, {"error": error.args[0]}
        except jwt.PyJWTError as error:
            self.rejected.append("invalid_grant")
            quoting = f"{error}: {form.get('subject_token', '')}"
            return 400, {"error": "invalid_grant", "error_description": quoting}
        self.exchanged.append(form)
        issued = self.token(
            sub=claims["sub"],
            aud=form.get("audience") or form.get("resource"),
            scope=form.get("scope", "tools"),
            act={"sub": name},
            exp=time.time() + self.lifetime,
            jti=str(len(self.exchanged)),
        )
        self.issued.append(issued)
        answer = {"access_token": issued, "issued_token_type": ACCESS_TOKEN, "token_type": "Bearer"}
        return 200, {**answer, "expires_in": self.lifetime, **self.overlay}

    def _claims(self, token: str) -> dict[str, Any]:
        key, issuer, audience = self.keys["RS256"].public_key(), self.issuer, AUDIENCE
        if self.trusted:
            keys = jwt.PyJWKClient(f"{self.trusted}/.well-known/jwks.json")
            key, issuer, audience = (
                keys.get_signing_key_from_jwt(token).key,
                self.trusted,
                f"{self.trusted}/mcp",
            )
        return jwt.decode(token, key, algorithms=["RS256", "ES256"], audience=audience, issuer=issuer)

    def _client(self, form: dict[str, str], authorization: str) -> str:
        if "client_assertion" in form:
            return str(jwt.decode(form["client_assertion"], options={"verify_signature": False})["sub"])
        pair = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        name, _, secret = pair.partition(":")
        if unquote(secret) != SECRET:
            raise LookupError("invalid_client")
        return unquote(name)


@contextmanager
def exchanging() -> Generator[Exchanging]:
    """Serve on a free port of loopback until the block ends."""
    server = Exchanging()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            documents: dict[str, Any] = {
                "/.well-known/oauth-authorization-server": server.metadata(),
                "/jwks": {"keys": server.published},
            }
            found = documents.get(self.path)
            self._send(200 if found else 404, found)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self._send(*server.exchange(form, self.headers.get("authorization", "")))

        def _send(self, status: int, value: Any) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(value).encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  as in the base
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.issuer = f"http://127.0.0.1:{listening.server_port}"
    thread = Thread(target=listening.serve_forever, args=[0.02])
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()
