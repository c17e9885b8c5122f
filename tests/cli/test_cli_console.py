"""`toolbus console`: it finds the running gateway, gets a token, and prints or opens the URL."""

import json
import os
import signal
import socket
import ssl
import stat
import struct
import threading
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.running import TOOLBUS, scripted, toolbus, write_config
from tests.cli.test_cli_serve_http import Served, served
from tests.patience import PATIENCE
from tests.servers.certificates import self_signed

NONE_RUNNING = "no console is running; start one with 'toolbus serve' or 'toolbus up'"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a home of its own, and a config."""
    made = tmp_path / "home" / "work"
    made.mkdir(parents=True)
    write_config(made, {"post": scripted(made, "post", tools=[{"name": "send"}])})
    return made


def _files(folder: Path) -> list[Path]:
    return list((folder.parent / ".state" / "toolbus" / "run").glob("*"))


def _enter(url: str, context: ssl.SSLContext | None = None) -> tuple[int, str]:
    """The status and the cookie for a URL that was printed."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection = (
        HTTPConnection(host, port, timeout=PATIENCE)
        if context is None
        else HTTPSConnection(host, port, timeout=PATIENCE, context=context)
    )
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        with connection.getresponse() as response:
            return response.status, response.headers.get("set-cookie", "")
    finally:
        connection.close()


def _stop(gateway: Served) -> None:
    gateway.process.send_signal(signal.SIGTERM)
    gateway.process.wait(PATIENCE)


def test_it_prints_a_url_that_lets_one_browser_in(folder: Path) -> None:
    with served(folder) as gateway:
        printed = toolbus("console", "--print", folder=folder)
        as_json = toolbus("console", "--json", folder=folder)
        url = printed.stdout.strip()
        entered, again = _enter(url), _enter(url)
        [file] = _files(folder)
        modes = stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)
        _stop(gateway)
    assert url.startswith(f"{gateway.serving['console']}?token=")
    assert (printed.returncode, printed.stderr) == (0, "")
    assert json.loads(as_json.stdout)["url"].startswith(f"{gateway.serving['console']}?token=")
    assert (entered[0], entered[1].partition("=")[0]) == (303, "toolbus_console")
    assert again[0] == 401
    assert modes == (0o600, 0o700)
    assert _files(folder) == []


def test_a_gateway_that_was_started_without_a_runtime_folder_is_found(folder: Path, tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    with served(folder):
        found = toolbus("console", "--print", folder=folder, env={"XDG_RUNTIME_DIR": str(runtime)})
    assert "?token=" in found.stdout


def test_the_browser_is_opened_if_there_is_one(folder: Path) -> None:
    opened = folder / "opened"
    browser = folder / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    browser.chmod(0o700)
    with served(folder) as gateway:
        done = toolbus("console", folder=folder, env={"BROWSER": f"{browser} %s"})
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"opening {gateway.serving['console']} in your browser\n"
    assert opened.read_text().startswith(f"{gateway.serving['console']}?token=")


def test_a_gateway_that_was_killed_is_forgotten(folder: Path) -> None:
    with served(folder, program=TOOLBUS) as gateway:  # a warm one ends a moment after it is killed
        os.kill(gateway.process.pid, signal.SIGKILL)
        gateway.process.wait(PATIENCE)
        assert len(_files(folder)) == 1
        done = toolbus("console", "--print", folder=folder)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"toolbus: {NONE_RUNNING}\n")
    assert _files(folder) == []


def test_without_a_console_there_is_no_page(folder: Path) -> None:
    post = scripted(folder, "post", tools=[{"name": "send"}])
    write_config(folder, {"post": post}, serve={"console": False})
    with served(folder) as gateway:
        page = gateway.get("/console/servers")
        done = toolbus("console", "--print", folder=folder)
    assert gateway.serving["console"] is None
    assert page[0] == 404
    assert (done.returncode, done.stderr) == (1, f"toolbus: {NONE_RUNNING}\n")


def test_of_two_gateways_that_of_the_config_is_opened(folder: Path) -> None:
    other, elsewhere = folder.with_name("other"), folder.with_name("elsewhere")
    other.mkdir()
    elsewhere.mkdir()
    write_config(other, {"post": scripted(other, "post", tools=[{"name": "send"}])})
    with served(folder) as first, served(other) as second:
        here, there = (toolbus("console", "--print", folder=one).stdout for one in (folder, other))
        config = str(other / "toolbus.yaml")
        named = toolbus("console", "--print", "--config", config, folder=elsewhere).stdout
        unclear = toolbus("console", "--print", folder=elsewhere)
    assert here.startswith(f"{first.serving['console']}?")
    assert there.startswith(f"{second.serving['console']}?")
    assert named.startswith(f"{second.serving['console']}?")
    assert unclear.returncode == 2
    assert "2 consoles are running; choose one:" in unclear.stderr
    assert f"toolbus console --config {config}\n" in unclear.stderr


def test_a_console_is_found_by_its_config_however_that_was_named(folder: Path) -> None:
    """Both projects call their config `toolbus.yaml`; a path that was typed means something in one folder."""
    other, alias = folder.with_name("other"), folder.with_name("alias")
    other.mkdir()
    alias.symlink_to(other)
    write_config(other, {"post": scripted(other, "post", tools=[{"name": "send"}])})
    with served(other, "--config", "toolbus.yaml") as gateway:
        ways = {
            "by a link": toolbus("console", "--json", folder=alias),
            "from below": toolbus("console", "--json", "--config", "../other/toolbus.yaml", folder=folder),
            "from home": toolbus("console", "--json", "--config", "~/other/toolbus.yaml", folder=folder),
        }
        elsewhere = toolbus("console", "--print", folder=folder)
        with served(folder, "--config", "./toolbus.yaml") as own:
            both = [toolbus("console", "--json", folder=one) for one in (folder, other)]
    config = str(other.resolve() / "toolbus.yaml")
    for way, done in ways.items():
        assert json.loads(done.stdout)["config"] == config, way
        assert json.loads(done.stdout)["url"].startswith(f"{gateway.serving['console']}?"), way
    assert (elsewhere.returncode, elsewhere.stdout) == (2, "")
    assert "another console is running; none of toolbus.yaml; to open one of another" in elsewhere.stderr
    assert f"toolbus console --config {config}\n" in elsewhere.stderr
    urls = [json.loads(done.stdout)["url"].partition("?")[0] for done in both]
    assert urls == [own.serving["console"], gateway.serving["console"]]


def test_under_https_the_certificate_of_the_gateway_is_checked(folder: Path) -> None:
    certificate = self_signed(folder)
    post = scripted(folder, "post", tools=[{"name": "send"}])
    serve = {"tls": {"cert": str(certificate), "key": str(certificate)}}
    write_config(folder, {"post": post}, serve=serve)
    with served(folder):
        done = toolbus("console", "--print", folder=folder)
        status, cookie = _enter(done.stdout.strip(), ssl.create_default_context(cafile=certificate))
    assert done.stdout.startswith("https://127.0.0.1:")
    assert status == 303
    assert cookie.endswith("; Secure")


def test_a_console_that_ends_while_it_is_asked_is_forgotten(folder: Path) -> None:
    """Its connection is reset, and then nothing listens there any more."""
    with served(folder, program=TOOLBUS) as gateway:  # a warm one ends a moment after it is killed
        [file] = _files(folder)
        announced = json.loads(file.read_text())
        os.kill(gateway.process.pid, signal.SIGKILL)
        gateway.process.wait(PATIENCE)
    with socket.create_server(("127.0.0.1", 0)) as dying:
        port = dying.getsockname()[1]
        file.write_text(json.dumps(announced | {"url": f"http://127.0.0.1:{port}/console"}))

        def end() -> None:
            for last in (False, True):  # first whether something listens, then for a token
                connection, _ = dying.accept()
                if last:
                    dying.close()
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()

        ending = threading.Thread(target=end)
        ending.start()
        done = toolbus("console", "--print", folder=folder)
        ending.join(PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"toolbus: {NONE_RUNNING}\n")
    assert _files(folder) == []
