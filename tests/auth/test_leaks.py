"""Tokens, codes and secrets show nowhere: searched by value, in all that can be seen of a login."""

import json
import logging
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.auth.authorization_server import AuthorizationServer, authorization_server
from tests.auth.buses import bus_of, called, client_of, config, expire, stored
from tests.auth.clients import CLIENTS, KEY, SECRET
from tests.auth.pages import Person
from tests.auth.resource_server import ResourceServer, resource_server
from tests.hostile.leaks import chain, strings
from tests.interop.servers import require_installed
from toolbus import LoginRequired, SignInFailed, ToolbusError
from toolbus.events import Event

require_installed("oauth")
pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    caplog.set_level(logging.DEBUG)


def processes() -> Iterator[str]:
    """The command lines of all processes, as anyone on this machine can read them."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            yield (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue  # it has ended


def logged(caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    """Every text of every record, also what no formatter shows."""
    for record in caplog.records:
        yield record.getMessage()
        yield repr(vars(record))


def shown(secrets: set[str], found: Any) -> list[str]:
    """The places where one of the secrets shows, with the text around it."""
    assert len(secrets) > 3
    texts = [text for item in found for text in strings(item)]
    around = (text.partition(secret) for text in texts for secret in secrets)
    return [f"{before[-200:]}(HERE){after[:200]}" for before, secret, after in around if secret]


def pickled(value: Any) -> str:
    """The content of its pickle, if there can be one."""
    try:
        return pickle.dumps(value).decode("latin-1")
    except Exception:  # most are not to be pickled
        return ""


async def test_a_login_shows_nowhere(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Event] = []
    settings, ann = config(guarded, tmp_path), Person("ann")
    authority.spoil(lifetime=2)
    async with bus_of(settings, ann, on_event=events.append) as bus:
        assert await called(bus, "whoami") == "ann"
        assert await called(bus, "admin") == "admin ann"
        await expire(guarded, tmp_path)
        assert await called(bus, "whoami") == "ann"
        command_lines = list(processes())
        status = [repr(bus), repr(bus.servers), repr(bus.config), pickled(bus.servers), pickled(bus.config)]
    login = await stored(guarded, tmp_path)
    secrets = authority.secrets()
    assert {login.access, login.refresh} <= secrets
    assert shown(secrets, [*logged(caplog), *command_lines, *status]) == []
    assert shown(secrets, [*map(repr, events), *map(pickled, events), events]) == []
    assert shown(secrets, [repr(login), str(login), pickled(login), *map(repr, ann.requests)]) == []
    assert len(caplog.records) > 10
    assert events


async def test_a_login_that_fails_shows_nowhere(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings, errors = config(guarded, tmp_path), list[BaseException]()
    authority.spoil(lifetime=2)
    client = await client_of(settings)
    await client.sign_in(Person("ann"))
    await expire(guarded, tmp_path)
    login = await stored(guarded, tmp_path)
    # What it refuses, it quotes: so do some authorization servers.
    quoted = {"error": "invalid_grant", "error_description": f"unknown token {login.refresh} {login.access}"}
    authority.spoil(status=400, answer=quoted)
    async with bus_of(settings) as bus:
        errors.append(bus.failures["guarded"])
        with pytest.raises(ToolbusError) as call:
            await bus.call("guarded/whoami", {})
        errors.append(call.value)
    with pytest.raises(SignInFailed) as failed:
        await client.sign_in(Person("ann"))
    errors.append(failed.value)
    assert isinstance(errors[0], LoginRequired)
    texts = [text for error in errors for text in (*chain(error), pickled(error))]
    assert shown(authority.secrets(), [*logged(caplog), *texts]) == []


@pytest.mark.parametrize(("name", "key"), [("bot", "client_secret"), ("signer", "key")])
async def test_the_secret_of_a_program_shows_nowhere(
    name: str,
    key: str,
    authority: AuthorizationServer,
    guarded: ResourceServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = {"bot": SECRET, "signer": KEY}[name]
    auth = {"type": "client_credentials", "client_id": name, key: "${PROOF}"}
    events: list[Event] = []
    settings = config(guarded, tmp_path, auth)
    async with bus_of(settings, get_secret={"PROOF": secret}.get, on_event=events.append) as bus:
        assert await called(bus, "whoami") == name
        found = [repr(bus), repr(bus.config), pickled(bus.config), *processes()]
    authority.spoil(status=401, answer={"error": "invalid_client", "error_description": f"not {secret}"})
    settings = config(guarded, tmp_path / "another", auth)
    async with bus_of(settings, get_secret={"PROOF": secret}.get, on_event=events.append) as bus:
        [failure] = bus.failures.values()
    texts = [*chain(failure), pickled(failure)]
    lines = {line for line in secret.splitlines() if "-----" not in line}
    secrets = lines | authority.secrets() | {json.dumps(secret)[1:-1]}
    assert shown(secrets, [*logged(caplog), *found, *map(repr, events), events, *texts]) == []
    assert [text for text in files(tmp_path).values() if secret in text] == []


def files(folder: Path) -> dict[Path, str]:
    """The files below a folder, with their text."""
    return {path: path.read_text() for path in folder.rglob("*") if path.is_file()}


async def test_a_private_key_of_a_token_shows_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        authorization_server(clients=CLIENTS) as authority,
        resource_server(authority.issuer, tmp_path, dpop=True) as guarded,
    ):
        settings = config(guarded, tmp_path / "tokens")
        async with bus_of(settings, Person("ann")) as bus:
            assert await called(bus, "whoami") == "ann"
        login = await stored(guarded, tmp_path / "tokens")
        assert login.jwk is not None
        secrets = authority.secrets() | {login.jwk["d"]}
    assert shown(secrets, [*logged(caplog), repr(login), *processes()]) == []


async def test_only_the_user_can_read_the_stored_login(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    folder = tmp_path / "tokens"
    await (await client_of(config(guarded, folder))).sign_in(Person("ann"))
    login = await stored(guarded, folder)
    found = files(folder)
    assert any(login.access in text for text in found.values())
    assert {oct(os.stat(file).st_mode & 0o777) for file in found} == {"0o600"}
    assert oct(os.stat(folder).st_mode & 0o777) == "0o700"
