"""Whether a user has other credentials for a server than the bus, so that the link to it cannot be shared."""

import asyncio

from toolbus.config import Secrets, ServerConfig
from toolbus.config.secrets.reference import Reference, parsed

PERSONAL = frozenset({"oauth", "identity_assertion", "workload"})
"""Kinds of `auth` that get a token for the user, with values that are not known before."""


def may_differ(server: ServerConfig, secrets: Secrets) -> bool:
    """Whether a user with these secrets may have other credentials for a server than the bus has."""
    return _is_personal(server) or any(
        reference.kind == "user" or secrets.asks_per_user for reference in _references(server)
    )


async def differ(server: ServerConfig, secrets: Secrets, others: Secrets) -> bool:
    """Whether a link with these secrets would have other credentials than one with the others.

    True if that is not known in time: a link is never shared by mistake.
    """
    if _is_personal(server):
        return True
    references = _references(server)
    try:
        async with asyncio.timeout(server.timeouts.connect):
            found = await asyncio.gather(
                *(source.find(reference) for source in (secrets, others) for reference in references)
            )
    except TimeoutError:
        return True
    return found[: len(references)] != found[len(references) :]


def _is_personal(server: ServerConfig) -> bool:
    return server.auth is not None and server.auth.type in PERSONAL


def _references(server: ServerConfig) -> list[Reference]:
    """The references of a server whose values may depend on the user."""
    parts = [part for _, text in server.texts() for part in parsed(text, server=server.alias)]
    found = (part for part in parts if isinstance(part, Reference) and part.kind in ("name", "user"))
    return list(dict.fromkeys(found))
