"""How a server is started or reached, which decides what runs: references as written, secrets left out."""

import os
from collections.abc import Iterator
from pathlib import Path

from toolbus.config import ServerConfig
from toolbus.config.secrets.literals import without_literals
from toolbus.core.text.canonical import digest
from toolbus.core.values.records import JSON, JSONObject


def launch_of(config: ServerConfig, folder: Path | None) -> dict[str, JSON]:
    """The launch line or URL of a server, the same on every machine; `folder` is that of the config."""
    shown = without_literals(config)
    launch: dict[str, JSON] = {}
    if config.command is not None:
        launch = _program(config, shown, folder)
    elif config.url is not None:
        launch = {"url": shown["url"]}
        if config.verify is not True:
            launch["verify"] = config.verify if config.verify is False else "a CA bundle"
    if config.transport not in ("stdio", "streamable-http"):
        launch["transport"] = config.transport
    if config.auth is not None:  # which secret this server gets
        texts = dict(_named(shown, "auth"))
        is_bearer = config.auth.type == "bearer"
        launch["auth"] = texts["token"] if is_bearer else {"type": config.auth.type, **texts}
    for name in ("env", "headers"):
        if values := dict(_named(shown, name)):
            launch[name] = values
    return launch


def is_approved(launch: JSONObject, locked: JSONObject) -> bool:
    """Whether a server may be launched like this; `NotCanonical` if that cannot be told.

    A program that was approved without a sandbox may get any: it could do everything before. Locks of older
    versions, which do not record sandboxes, have none either.
    """
    if "sandbox" not in locked:
        launch = {key: value for key, value in launch.items() if key != "sandbox"}
    return digest(launch) == digest(locked)


def launch_line(launch: dict[str, JSON]) -> str:
    """The launch in one line, for people."""
    if "url" in launch:
        return str(launch["url"])
    words = [str(launch.get("command", "")), *map(str, launch.get("args") or ())]
    return " ".join(words).strip() or str(launch.get("transport", ""))


def _program(config: ServerConfig, shown: dict[str, str], folder: Path | None) -> dict[str, JSON]:
    launch: dict[str, JSON] = {"command": shown["command"], "args": list(_numbered(shown, "args"))}
    if (cwd := _relative(shown.get("cwd"), folder)) is not None:
        launch["cwd"] = cwd
    if config.env_file is not None:
        launch["env_file"] = shown["env_file"]
    if config.inherit_env != "safe":
        inherited = config.inherit_env
        launch["inherit_env"] = inherited if isinstance(inherited, str) else sorted(inherited)
    if (sandbox := config.sandbox) is not None:
        opened: dict[str, JSON] = {
            "read": sorted(_numbered(shown, "sandbox.read")),
            "write": sorted(_numbered(shown, "sandbox.write")),
            "net": sandbox.net,
            "env": sorted(sandbox.env),
        }
        launch["sandbox"] = {key: value for key, value in opened.items() if value} or True
    return launch


def _numbered(shown: dict[str, str], field: str) -> Iterator[str]:
    return (text for key, text in shown.items() if key.startswith(f"{field}["))


def _named(shown: dict[str, str], field: str) -> Iterator[tuple[str, str]]:
    return ((key.partition(".")[2], text) for key, text in shown.items() if key.startswith(f"{field}."))


def _relative(cwd: str | None, folder: Path | None) -> str | None:
    """The working directory from the config's folder; None if it is that folder."""
    if cwd is None:
        return None
    plain = cwd.replace("$${", "${")
    if folder is not None and os.path.isabs(plain):
        # A found config sets its own folder, which is another path on another machine.
        relative = os.path.relpath(plain, folder)
        if relative == os.curdir:
            return None
        if not relative.startswith(os.pardir):
            return relative.replace("${", "$${")
    return cwd
