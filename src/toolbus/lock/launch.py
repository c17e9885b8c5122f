"""The launch line or URL of a server, which decides what runs: references as written, secrets left out.

A launcher such as `npx` or `uvx` without a version runs the version that is published that day. So a lock
records the resolved version of the package, and an unpinned package leads to a warning.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from toolbus.config import ServerConfig
from toolbus.config.launch.patterns import LaunchedPackage, package_in
from toolbus.config.secrets.literals import without_literals
from toolbus.core.text.canonical import digest
from toolbus.core.values.records import JSON, JSONObject
from toolbus.schema.values import entries_of, items_of


def launch_of(config: ServerConfig, folder: Path | None) -> dict[str, JSON]:
    """The launch line or URL of a server, the same on every machine; `folder` is the config's folder."""
    shown, folder = without_literals(config), config.folder or folder
    launch = _place(config, shown) if config.command is None else _program(config, shown, folder)
    if config.transport not in ("stdio", "streamable-http", "openapi"):
        launch["transport"] = config.transport
    if config.auth is not None:  # which secret this server gets
        texts = dict(_named(shown, "auth"))
        is_bearer = config.auth.type == "bearer"
        launch["auth"] = texts["token"] if is_bearer else {"type": config.auth.type, **texts}
    for name in ("env", "headers"):
        if values := dict(_named(shown, name)):
            launch[name] = values
    if config.forward_headers:  # what it learns about clients
        launch["forward_headers"] = list(config.forward_headers)
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
    if (place := launch.get("url") or launch.get("openapi")) is not None:
        return str(place)
    words = [str(launch.get("command", "")), *map(str, launch.get("args") or ())]
    return " ".join(words).strip() or str(launch.get("transport", ""))


def _place(config: ServerConfig, shown: dict[str, str]) -> dict[str, JSON]:
    """The URL of a server, or the document of an API and where its requests may go."""
    place: dict[str, JSON] = {}
    if config.url is not None:
        place["url"] = shown["url"]
    elif (api := config.openapi) is not None:
        opened: dict[str, JSON] = {
            "openapi": shown["openapi.document"],
            "base_url": shown.get("openapi.base_url"),
            "query": {name: shown[f"openapi.query.{name}"] for name in api.query},
            "allow_origins": sorted(api.allow_origins),
            "allow_private": api.allow_private,
        }
        place = {key: value for key, value in opened.items() if value}
    if place and config.verify is not True:
        place["verify"] = config.verify if config.verify is False else "a CA bundle"
    return place


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


_SECONDS = 20
_VERSION_OF = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"


def launched_package(config: ServerConfig) -> LaunchedPackage | None:
    """The package that a server's command runs; None if the command is not a known launcher."""
    return package_in(config.command or "", config.args)


def resolved_package(config: ServerConfig) -> dict[str, JSON]:
    """The package of a launcher and its version, as it is locked; empty without a launcher."""
    package = launched_package(config)
    if package is None:
        return {}
    version = package.version or _resolved_version(config, package)
    return {"name": package.name or package.spec, **({"version": version} if version else {})}


def pin_warning(config: ServerConfig) -> str | None:
    """A warning if the launcher runs whatever version is published; None if it is pinned."""
    package = launched_package(config)
    if package is None or package.is_pinned:
        return None
    at = "@" if package.registry == "npm" else "=="
    example = f"; pin it, such as {package.name}{at}VERSION" if package.name else ""
    return f"{package.spec!r} is not pinned to a version, so it may change at any start{example}"


def _resolved_version(config: ServerConfig, package: LaunchedPackage) -> str | None:
    """The version in the launcher's cache, which is the one that runs; None if that cannot be found out."""
    # In a sandbox it runs from a folder of its own. Asking uv would run code of the package outside.
    if package.name is None or config.sandbox is not None:
        return None
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        found = _in_npx_cache(config, package) if package.registry == "npm" else _in_uv_cache(config, package)
        return next(found, None)
    return None


def _in_npx_cache(config: ServerConfig, package: LaunchedPackage) -> Iterator[str]:
    manifests = (Path(_npm_cache(config)) / "_npx").glob("*/package.json")
    for manifest in sorted(manifests, key=lambda path: path.stat().st_mtime, reverse=True):
        with suppress(OSError, ValueError):  # a damaged folder does not matter, unless it is the only one
            wanted = entries_of(entries_of(json.loads(manifest.read_bytes())).get("_npx")).get("packages")
            if package.spec in items_of(wanted):
                own = manifest.parent / "node_modules" / str(package.name) / "package.json"
                version = entries_of(json.loads(own.read_bytes())).get("version")
                if isinstance(version, str):
                    yield version


def _npm_cache(config: ServerConfig) -> str:
    # In either case, as npm takes it; asking npm takes longer than everything else here.
    named = {name.lower(): value for name, value in _environment(config).items()}.get("npm_config_cache")
    return named or _printed(["npm", "config", "get", "cache"], config)


def _in_uv_cache(config: ServerConfig, package: LaunchedPackage) -> Iterator[str]:
    """Ask uv, offline: it resolves from its cache, as it did when the server started."""
    command = ["uvx", "--offline", "--from", package.spec, "python", "-c", _VERSION_OF, str(package.name)]
    yield _printed(command, config)


def _printed(command: Sequence[str], config: ServerConfig) -> str:
    # As for servers: also beside our interpreter, in a virtual environment that is not activated.
    env = _environment(config)
    places = [env.get("PATH", os.defpath), os.path.dirname(sys.executable)]
    program = shutil.which(command[0], path=os.pathsep.join(places))
    if program is None:
        raise FileNotFoundError(command[0])
    done = subprocess.run(
        [program, *command[1:]],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=True,
    )
    return done.stdout.strip()


def _environment(config: ServerConfig) -> dict[str, str]:
    """Ours, and the plain values of the server's: a reference is not expanded for a lookup."""
    return os.environ | {name: value for name, value in config.env.items() if "${" not in value}
