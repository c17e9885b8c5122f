"""Credentials from the config, which do not change while a connection is open."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes, urlsplit

from toolbus.config import Resolved
from toolbus.connect.auth.credentials import Credentials


@dataclass(frozen=True, slots=True, repr=False)
class StaticHeaders:
    """The same headers for every request."""

    values: Mapping[str, str]

    async def headers(self) -> Mapping[str, str]:
        return self.values

    async def refused(self, status: int, headers: Mapping[str, str]) -> bool:
        return False


@dataclass(frozen=True, slots=True, repr=False)
class BearerToken:
    """A bearer token, in addition to other headers."""

    token: str
    others: Credentials

    async def headers(self) -> Mapping[str, str]:
        return {**await self.others.headers(), "Authorization": f"Bearer {self.token}"}

    async def refused(self, status: int, headers: Mapping[str, str]) -> bool:
        return False


def config_credentials(values: Resolved) -> Credentials:
    """The credentials of the config: `auth`, `headers`, else the user and password in the URL."""
    userinfo, _, _ = urlsplit(values.url or "").netloc.rpartition("@")
    has_own = any(name.lower() == "authorization" for name in values.headers)
    static = dict(values.static_headers)
    if userinfo and not has_own:
        static["Authorization"] = f"Basic {base64.b64encode(unquote_to_bytes(userinfo)).decode()}"
    headers = StaticHeaders(static)
    return headers if values.token is None else BearerToken(values.token, headers)
