"""Check everything that `toolbus serve` needs, without listening."""

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeAlias

from cryptography import x509

from toolbus.audit.chain import Chain
from toolbus.bus.engine.stores import store_of, store_url
from toolbus.bus.rules.lock import LockApprovals
from toolbus.bus.toolbus import Toolbus
from toolbus.config import BusConfig, Secrets, ServerConfig
from toolbus.config.location import near_miss
from toolbus.config.secrets.expand import resolved
from toolbus.config.secrets.lookup import MissingValue
from toolbus.config.secrets.reference import Reference, parsed
from toolbus.config.settings.serve import Serve, TokenIssuer
from toolbus.connect.auth.failure import AuthFailure
from toolbus.connect.opening.failure import awaits_client
from toolbus.connect.sandbox.bubblewrap import find_bubblewrap
from toolbus.core.operation.events import Event, StateChanged, Warned
from toolbus.core.text.display import counted
from toolbus.core.values.errors import AuditFailed, ToolbusError
from toolbus.gateway.access.keys import KEY, StoredKey, StoredKeys, explained, file_keys
from toolbus.gateway.access.tokens import Issuer
from toolbus.gateway.access.views import Views
from toolbus.gateway.http.run import CannotListen, listening_socket, tls_context
from toolbus.gateway.people.registry import BROWSER, INVITE, PersonRegistry, person_files
from toolbus.gateway.protocol.principal import LOCAL
from toolbus.gateway.sign_in.grants import GRANT, StoredGrants, grant_files
from toolbus.state.store.store import Store, store_cipher
from toolbus.state.values import Mirror

Severity: TypeAlias = Literal["error", "warning"]
"""With an error, the gateway would not start, or nobody could use it."""
_SOON = timedelta(days=14)
_STORE_PATIENCE = 5.0
"""Seconds for a database to respond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem, with the part of the config that it is about."""

    severity: Severity
    about: str
    problem: str
    step: str = ""

    def __str__(self) -> str:
        return f"{self.about}: {self.problem}{f'; {self.step}' if self.step else ''}"


def error(about: str, problem: object, step: str = "") -> Finding:
    """A problem that has to be solved first."""
    return Finding(severity="error", about=about, problem=str(problem), step=step)


def warning(about: str, problem: object, step: str = "") -> Finding:
    """A problem with which the gateway starts."""
    return Finding(severity="warning", about=about, problem=str(problem), step=step)


async def findings(config: BusConfig, serve: Serve, *, over_stdio: bool, online: bool) -> list[Finding]:
    """Check a config and the files, programs and secrets that it names.

    With `online`, reach the store, the authorization server and all servers.
    """
    found = [*_locked(config), *_audited(config), *_unmatched_quotas(config, serve)]
    found += [one async for one in _servers(config)]
    found += [one async for one in _references(config)]
    if not over_stdio:
        found += [*_listening(serve), *_unreachable(config, serve)]
    keys = not over_stdio and serve.auth.keys
    if config.store is not None:
        found += [one async for one in _store(config, serve, keys=keys, online=online)]
    else:
        found += _file_keys(config, serve) if keys else []
        found += _file_people(config, serve) if not over_stdio else []
    if online:
        if not over_stdio:
            found += [one async for one in _issuer(config, serve)]
        known = {one.about for one in found if one.about.startswith("servers.")}
        found += [one async for one in _started(config, serve) if one.about not in known]
    return found


def _unmatched_quotas(config: BusConfig, serve: Serve) -> Iterator[Finding]:
    """Look for quotas that no call can match; users and keys are not known here."""
    known = {
        "server": [*config.servers, *config.disabled, *config.outside],
        "view": list(serve.views or (serve.default_view,)),
    }
    for index, quota in enumerate(config.quotas):
        about = f"quotas[{index}]"
        if quota.per == "key" and not serve.auth.is_needed:
            yield warning(about, "it counts no call, because the gateway has no keys", "set serve.auth")
        for pattern in quota.names if quota.per in known else ():
            if not any(fnmatchcase(name, pattern) for name in known[quota.per]):
                yield warning(
                    about, f"no {quota.per} matches {pattern!r}{near_miss(pattern, known[quota.per])}"
                )


def _unreachable(config: BusConfig, serve: Serve) -> Iterator[Finding]:
    """Look for servers that need a token of a client, if no client can have one."""
    if serve.auth.oauth is not None or serve.auth.sign_in is not None:
        return
    for alias, server in config.servers.items():
        if server.auth is not None and server.auth.type == "token_exchange":
            step = "set serve.auth.oauth or serve.auth.sign_in"
            yield warning(
                f"servers.{alias}", "no client can use it, because none has a token to exchange", step
            )


# Files and addresses


def _locked(config: BusConfig) -> Iterator[Finding]:
    try:
        LockApprovals(config)
    except (ToolbusError, OSError) as problem:
        yield error("lock", problem)


def _audited(config: BusConfig) -> Iterator[Finding]:
    """Try the trail, without adding to it."""
    if config.audit is not None:
        try:
            Chain(config.audit).check()
        except AuditFailed as failed:
            yield error("audit", f"{failed.path}: {failed.problem}", failed.step)


def _listening(serve: Serve) -> Iterator[Finding]:
    """Look at the certificate and the address; the socket is closed at once."""
    for text in serve.warnings:
        yield warning("serve", text)
    if serve.tls is not None:
        yield from _certificate(serve.tls.cert, serve.tls.key)
    try:
        listening_socket(*serve.address).close()
    except CannotListen as problem:
        step = "free it, or choose another address with serve.http or --http"
        yield error("serve.http", problem, step)


def _certificate(cert: str, key: str) -> Iterator[Finding]:
    try:
        tls_context(cert, key)
        chain = x509.load_pem_x509_certificates(Path(cert).read_bytes())
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or type(problem).__name__
        yield error("serve.tls", f"the certificate or its key cannot be used ({reason})", "check both files")
        return
    ends, now = min(one.not_valid_after_utc for one in chain), datetime.now(UTC)
    if ends <= now:
        yield error("serve.tls", f"the certificate expired on {ends:%Y-%m-%d}", "renew it")
    elif ends - now < _SOON:
        yield warning("serve.tls", f"the certificate expires on {ends:%Y-%m-%d}", "renew it")


# Servers


async def _servers(config: BusConfig) -> AsyncIterator[Finding]:
    """Look for the secrets, programs and sandboxes of servers; none is started."""
    secrets = Secrets(None, config.folder, config.reviewed)
    for alias, server in config.servers.items():
        rated = error if server.required else warning
        if server.server is not None or _is_personal(server):
            continue  # each user has other values
        try:
            values = await resolved(server, secrets)
            if server.sandbox is not None:
                find_bubblewrap(alias)
        except ToolbusError as problem:
            yield rated(f"servers.{alias}", problem)
        else:
            if values.command is not None and not _is_program(values.command, values.env, values.cwd, config):
                step = "install it, or give its full path"
                yield rated(f"servers.{alias}", f"the command {server.command!r} was not found", step)


def _is_personal(server: ServerConfig) -> bool:
    """Whether its entry names the user: then it has no values before somebody calls."""
    parts = (part for key, text in server.texts() for part in parsed(text, server=server.alias, key=key))
    return any(isinstance(part, Reference) and part.kind == "user" and part.default is None for part in parts)


def _is_program(command: str, env: Mapping[str, str], cwd: str | None, config: BusConfig) -> bool:
    path, folder = env.get("PATH"), Path(cwd or config.folder or Path.cwd())
    if os.sep in command:
        return os.access(folder / os.path.expanduser(command), os.X_OK)
    return shutil.which(command, path=path or os.environ.get("PATH", os.defpath)) is not None


# Keys, the store and the authorization server


def _file_keys(config: BusConfig, serve: Serve) -> list[Finding]:
    if config.file is None:
        return [error("serve.auth.keys", "keys belong to a config file", "save the config to one")]
    try:
        with explained():
            keys = file_keys(config.file).all()
    except ToolbusError as problem:
        return [error("serve.auth.keys", problem)]
    return list(_of_keys(keys, serve))


def _of_keys(keys: Sequence[StoredKey], serve: Serve) -> Iterator[Finding]:
    """Look for keys that let nobody in."""
    if not keys and serve.auth.oauth is None and serve.auth.sign_in is None:
        yield warning(
            "serve.auth.keys",
            "there is no key, so every client is refused",
            "add one with 'toolbus key add NAME'",
        )
    for key in keys:
        for view in key.views:
            if serve.view(view) is None:
                step = "add the view, or revoke the key"
                yield warning(
                    "serve.auth.keys", f"the key {key.name!r} is for {view!r}, which is no view", step
                )


def _file_people(config: BusConfig, serve: Serve) -> list[Finding]:
    if serve.auth.sign_in is None:
        return []
    if config.file is None:
        return [error("serve.auth.sign_in", "sign-ins belong to a config file", "save the config to one")]
    files = person_files(config.file)
    try:
        with explained("invites and sign-ins"):
            grants = grant_files(config.file)
            return files.wait(_of_people(PersonRegistry(files), StoredGrants(grants), serve))
    except ToolbusError as problem:
        return [error("serve.auth.sign_in", problem)]


async def _of_people(people: PersonRegistry, grants: StoredGrants, serve: Serve) -> list[Finding]:
    """Look for somebody who can sign in."""
    if serve.auth.sign_in is None or serve.auth.sign_in.oidc is not None:
        return []
    if await people.all(INVITE) or await people.all(BROWSER) or grants.all():
        return []
    step = "invite somebody with 'toolbus key invite NAME'"
    return [warning("serve.auth.sign_in", "nobody is invited, so nobody can sign in", step)]


async def _store(config: BusConfig, serve: Serve, *, keys: bool, online: bool) -> AsyncIterator[Finding]:
    assert config.store is not None, "asked only then"
    try:
        await store_cipher(await store_url(config, config.store))
        if online and (store := store_of(config)) is not None:
            for one in await _reached(store, serve, keys=keys):
                yield one
    except ToolbusError as problem:
        yield error("store", problem)


async def _reached(store: Store, serve: Serve, *, keys: bool) -> list[Finding]:
    store.patience = _STORE_PATIENCE
    mirror, grants = Mirror(store, KEY), Mirror(store, GRANT)
    try:
        await store.open()
        await mirror.start()
        found = list(_of_keys(StoredKeys(store, mirror).all(), serve)) if keys else []
        await grants.start()
        return found + await _of_people(PersonRegistry(store), StoredGrants(store, grants), serve)
    finally:
        await grants.close()
        await mirror.close()
        await store.close()


async def _references(config: BusConfig) -> AsyncIterator[Finding]:
    """Look up the references outside of the servers; `_store` looks up its own."""
    secrets = Secrets(None, config.folder, config.reviewed)
    for key, text in config.texts():
        for part in parsed(text, key=key):
            if isinstance(part, Reference) and key != "store.url":
                found = await secrets.find(part)
                if isinstance(found, MissingValue):
                    yield error(key, f"{part.label} {found.reason}")


async def _issuer(config: BusConfig, serve: Serve) -> AsyncIterator[Finding]:
    oidc = None if serve.auth.sign_in is None else serve.auth.sign_in.oidc
    issuers = {
        "oauth.issuer": serve.auth.oauth,
        "sign_in.oidc.issuer": None if oidc is None else TokenIssuer(issuer=oidc.issuer),
    }
    for key, setting in issuers.items():
        if setting is None:
            continue
        try:
            await Issuer(setting, Secrets(None, config.folder, config.reviewed)).check()
        except (AuthFailure, ToolbusError) as problem:
            yield error(f"serve.auth.{key}", f"{setting.issuer} cannot be used: {problem}")


# Everything together


async def _started(config: BusConfig, serve: Serve) -> AsyncIterator[Finding]:
    """Start the servers, and look at what clients would see."""
    warned: list[Warned] = []
    try:
        async with _tried_once(config, warned) as bus:
            views = Views(bus, serve)
            for alias, problem in bus.failures.items():
                if awaits_client(problem):
                    continue  # until a client calls
                yield (error if config.servers[alias].required else warning)(f"servers.{alias}", problem)
            if bus.held:
                names = ", ".join(list(bus.held)[:3])
                held = f"{counted(len(bus.held), 'definition')} on hold: {names}"
                yield warning("lock", held, "review with 'toolbus lock diff'")
            for name in serve.views or (serve.default_view,):
                if not len(views.view_of(replace(LOCAL, view=name)).catalog):
                    yield warning(f"serve.views.{name}", "it has no tool now")
    except ToolbusError as problem:
        yield error("servers", problem)
    for one in warned:
        yield warning(f"servers.{one.server}" if one.server in config.servers else "policy", one.message)


@asynccontextmanager
async def _tried_once(config: BusConfig, warned: list[Warned]) -> AsyncGenerator[Toolbus]:
    """The bus, with servers that are ready or have failed once; more attempts are not waited for."""
    awaited = {alias for alias, one in config.servers.items() if not one.lazy}
    tried = asyncio.Event()

    def note(event: Event) -> None:
        if isinstance(event, Warned):
            warned.append(event)
        elif isinstance(event, StateChanged) and event.state not in ("idle", "connecting"):
            awaited.discard(event.server)
            if not awaited:
                tried.set()

    # All of them start: a required one that is down would keep the others from being looked at.
    free = {alias: one.model_copy(update={"required": False}) for alias, one in config.servers.items()}
    bus = Toolbus(config.model_copy(update={"servers": free}))
    bus.on_event(note, calls=False)
    starting, trying = asyncio.create_task(bus.start()), asyncio.create_task(tried.wait())
    try:
        await asyncio.wait((starting, trying), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
        await bus.wait_ready([alias for alias in config.servers if alias not in bus.failures])
        yield bus
    finally:
        starting.cancel()
        trying.cancel()
        await asyncio.gather(starting, trying, return_exceptions=True)
        await bus.close()
