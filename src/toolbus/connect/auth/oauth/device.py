"""Sign in on another device: a short code to enter there, and polling here (RFC 8628)."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolbus.connect.auth.failure import AuthFailure, PersonNeeded, Rejected, Unreachable
from toolbus.connect.auth.oauth.client import DEVICE_GRANT
from toolbus.connect.auth.oauth.token_endpoint import TokenEndpoint, TokenSet
from toolbus.connect.auth.text import shown

INTERVAL = 5.0
LIFETIME = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DeviceCode:
    """The code that the person enters, and the one that we poll with."""

    device_code: str
    user_code: str
    url: str
    interval: float
    expires_at: float


async def request_code(endpoint: TokenEndpoint, form: Mapping[str, str]) -> DeviceCode:
    """Ask for a code; AuthFailure if the authorization server has no device flow."""
    reply = await endpoint.post("device_authorization_endpoint", form)
    answer = reply.json() or {}
    device_code, user_code = answer.get("device_code"), answer.get("user_code")
    url = answer.get("verification_uri_complete") or answer.get("verification_uri")
    if reply.status != 200 or not all(isinstance(text, str) for text in (device_code, user_code, url)):
        reason = shown(answer.get("error_description") or answer.get("error") or reply.problem)
        raise AuthFailure(f"the authorization server issued no device code: {reason}")
    return DeviceCode(
        device_code=device_code or "",
        user_code=shown(user_code),
        url=await endpoint.fetch.check_page(url or ""),
        interval=_seconds(answer.get("interval"), INTERVAL, 1.0, 60.0),
        expires_at=time.time() + _seconds(answer.get("expires_in"), LIFETIME, 1.0, LIFETIME),
    )


async def poll(endpoint: TokenEndpoint, code: DeviceCode, form: Mapping[str, str]) -> TokenSet:
    """The tokens, once the person has entered the code."""
    interval = code.interval
    while time.time() < code.expires_at:
        await asyncio.sleep(interval)
        try:
            return await endpoint.tokens(
                {**form, "grant_type": DEVICE_GRANT, "device_code": code.device_code}
            )
        except Unreachable:
            interval = min(interval * 2, 60.0)
        except Rejected as rejected:
            if rejected.error == "slow_down":
                interval += INTERVAL
            elif rejected.error == "access_denied":
                raise PersonNeeded("the sign-in was declined") from rejected
            elif rejected.error != "authorization_pending":
                raise
    raise PersonNeeded("the code has expired before it was entered")


def _seconds(value: Any, default: float, least: float, most: float) -> float:
    return min(max(float(value), least), most) if isinstance(value, int | float) else default
