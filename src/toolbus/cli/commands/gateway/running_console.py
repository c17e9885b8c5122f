"""The console of a running gateway or background bus: find it, and get a token for it."""

import json
import shlex
import ssl
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from toolbus.cli.errors import Usage
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.screen import short_path
from toolbus.config.find import find_config, named_config
from toolbus.config.trust import located
from toolbus.connect.http.tls import digest_shown, unverified
from toolbus.console.announcement import Announcement, announcements, forget
from toolbus.core.values.errors import ConfigError, ToolbusError

SECONDS = 10.0


class NoConsole(ToolbusError):
    """Nothing with a console is running."""


def running_console(settings: SharedOptions) -> Announcement:
    """The console of the config; without a config, the only one there is."""
    running = [one for one in announcements() if _is_alive(one)]
    file, is_named = _wanted(settings)
    if own := [one for one in running if one.config is not None and one.config == file]:
        return own[0]
    if is_named or not running:
        raise _none_running(f" of {short_path(file)}" if is_named and file else "")
    if file is None and len(running) == 1:
        return running[0]
    lines = (shlex.join(["toolbus", "console", "--config", one.config or ""]) for one in running)
    count = f"{len(running)} consoles are running" if len(running) > 1 else "another console is running"
    which = "choose one" if file is None else f"none of {short_path(file)}; to open one of another config"
    raise Usage(f"{count}; {which}:", tuple(f"    {line}" for line in lines))


def _wanted(settings: SharedOptions) -> tuple[str | None, bool]:
    """The config whose console to open, and whether the user named it; None if there is none."""
    if named := settings.config or named_config():
        return str(located(Path(named))), True
    try:
        return str(located(find_config())), False
    except ConfigError:
        return None, False


def _none_running(which: str = "") -> NoConsole:
    return NoConsole(f"no console{which} is running; start one with 'toolbus serve' or 'toolbus up'")


def _is_alive(announcement: Announcement) -> bool:
    """Whether something answers there; the file of a process that was killed is deleted."""
    try:
        with closing(_connection(announcement)) as connection:
            connection.connect()
    except ConnectionRefusedError:
        forget(announcement)
        return False
    except OSError:
        return False
    return True


def console_token(announcement: Announcement) -> str:
    """A token that lets one browser in; raises `NoConsole`."""
    connection = _connection(announcement)
    try:
        headers = {"authorization": f"Bearer {announcement.secret}", "content-length": "0"}
        connection.request("POST", f"{urlsplit(announcement.url).path}/token", headers=headers)
        with connection.getresponse() as response:
            status, body = response.status, response.read(10_000)
        if status == 200:
            return json.loads(body)["token"]
        reason = f"it answered {status}"
    except (OSError, HTTPException, ValueError, KeyError) as error:
        if isinstance(error, OSError) and not _is_alive(announcement):  # it has just ended
            raise _none_running() from None
        reason = f"it did not answer ({type(error).__name__})"
    finally:
        connection.close()
    raise NoConsole(f"the console at {announcement.url} gave no token: {reason}; restart what serves it")


def _connection(announcement: Announcement) -> HTTPConnection:
    """A connection to exactly this gateway: with the certificate that it has, and through no proxy."""
    parts = urlsplit(announcement.url)
    host = parts.hostname or ""
    if parts.scheme == "http":
        return HTTPConnection(host, parts.port, timeout=SECONDS)
    return _ExactConnection(host, parts.port, announcement.certificate)


class _ExactConnection(HTTPSConnection):
    """A connection to the server that shows this certificate, for any host name."""

    def __init__(self, host: str, port: int | None, certificate: str | None) -> None:
        super().__init__(host, port, timeout=SECONDS, context=unverified())
        self._certificate = certificate

    def connect(self) -> None:
        super().connect()
        if digest_shown(self.sock) != self._certificate:
            self.close()
            raise ssl.SSLCertVerificationError("it shows another certificate")
