"""Credentials from the config, which do not change while a connection is open."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes, urlsplit

from toolbus.config import Resolved
from toolbus.connect.auth.credentials import HttpRefusal


@dataclass(frozen=True, slots=True, repr=False)
class StaticHeaders:
    """The same headers for every request."""

    values: Mapping[str, str]

    def headers(self, method: str, url: str) -> Mapping[str, str]:
        return self.values

    async def renew(self) -> None:
        """They do not expire."""

    async def refused(self, refusal: HttpRefusal) -> bool:
        return False


def static_headers(values: Resolved) -> dict[str, str]:
    """The headers of the config, by name in lower case, and the user and password in the URL."""
    headers = {name.lower(): value for name, value in values.headers.items()}
    userinfo, _, _ = urlsplit(values.url or "").netloc.rpartition("@")
    if userinfo:
        headers.setdefault("authorization", f"Basic {base64.b64encode(unquote_to_bytes(userinfo)).decode()}")
    return headers
