"""The package that a launcher such as `npx` or `uvx` runs, and which version of it.

A launcher without a version runs whatever is published that day, so a lock records the version that was
resolved, and an unpinned package is worth a warning.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from toolbus.config import ServerConfig
from toolbus.core.records import JSON
from toolbus.schema.values import entries_of, items_of

Registry: TypeAlias = Literal["npm", "pypi"]
_LAUNCHERS: Mapping[tuple[str, ...], Registry] = {
    ("npx",): "npm",
    ("bunx",): "npm",
    ("npm", "exec"): "npm",
    ("npm", "x"): "npm",
    ("bun", "x"): "npm",
    ("pnpm", "dlx"): "npm",
    ("yarn", "dlx"): "npm",
    ("uvx",): "pypi",
    ("uv", "tool", "run"): "pypi",
    ("pipx", "run"): "pypi",
}
_NAMING: Mapping[Registry, tuple[str, ...]] = {
    "npm": ("-p", "--package"),
    "pypi": ("--from", "--spec"),
}
"""The options that name the package, instead of the first word."""
_TAKE_VALUE: Mapping[Registry, frozenset[str]] = {
    "npm": frozenset(
        [
            *("-c", "--call", "-w", "--workspace", "--allow-scripts", "--cache", "--loglevel", "--prefix"),
            *("--registry", "--script-shell", "--tag", "--userconfig"),
        ]
    ),
    "pypi": frozenset(
        [
            *("-w", "--with", "--with-editable", "--with-requirements", "-p", "--python", "--env-file"),
            *("-c", "--constraints", "-b", "--build-constraints", "--overrides", "--python-platform"),
            *("--index", "--default-index", "-i", "--index-url", "--extra-index-url", "-f", "--find-links"),
            *("--index-strategy", "--keyring-provider", "-P", "--upgrade-package", "--resolution"),
            *("--prerelease", "--fork-strategy", "--exclude-newer", "--reinstall-package", "--link-mode"),
            *("-C", "--config-setting", "--no-build-package", "--no-binary-package", "--cache-dir"),
            *("--refresh-package", "--color", "--allow-insecure-host", "--directory", "--project"),
            *("--config-file", "--torch-backend", "--pip-args", "--suffix"),
        ]
    ),
}
_EXACT: Mapping[Registry, re.Pattern[str]] = {
    "npm": re.compile(r"v?\d+\.\d+\.\d+(?:[-+][\w.+-]+)?"),
    "pypi": re.compile(r"\d+(?:\.\d+)*(?:[\w.+!-]*)"),
}
_COMMIT = re.compile(r"[@#][0-9a-f]{40}\b")
_NAME = re.compile(
    r"(?P<name>@[\w.-]+/[\w.-]+|\w[\w.-]*)(?:\[[^\]]*\])?(?:(?:@|==)(?P<version>.*)|(?P<range>[~<>=!].*))?"
)
_SECONDS = 20
_VERSION_OF = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """The package in the arguments of a launcher."""

    registry: Registry
    spec: str
    """As written: `name@1.2.3`, `name==1.2.3`, `name`, a URL."""
    name: str | None
    """Its name in the registry; None for a URL or a path."""
    version: str | None
    """The version, if it is pinned."""
    is_pinned: bool


def launched_package(config: ServerConfig) -> Package | None:
    """The package that a server's command runs; None if the command is not a known launcher."""
    command = (os.path.basename(config.command or "").removesuffix(".cmd").removesuffix(".exe"), *config.args)
    for words, registry in _LAUNCHERS.items():
        if command[: len(words)] == words and (spec := _spec(command[len(words) :], registry)):
            return _parsed(spec, registry)
    return None


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


def _spec(words: Sequence[str], registry: Registry) -> str | None:
    waiting = iter(words)
    for word in waiting:
        option, _, value = word.partition("=")
        if option in _NAMING[registry]:
            return value or next(waiting, None)
        if word in _TAKE_VALUE[registry]:
            next(waiting, None)
        elif not word.startswith("-"):
            return word
    return None


def _parsed(spec: str, registry: Registry) -> Package:
    found = _NAME.fullmatch(spec)
    # A URL, a path, or a repository such as `owner/name` and `github:owner/name`.
    if found is None or "://" in spec:
        is_pinned = bool(_COMMIT.search(spec))
        return Package(registry=registry, spec=spec, name=None, version=None, is_pinned=is_pinned)
    written = found["version"] or ""
    version = written if _EXACT[registry].fullmatch(written) else None
    return Package(
        registry=registry, spec=spec, name=found["name"], version=version, is_pinned=version is not None
    )


def _resolved_version(config: ServerConfig, package: Package) -> str | None:
    """The version in the launcher's cache, which is the one that runs; None if that cannot be found out."""
    if package.name is None:
        return None
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        found = _in_npx_cache(config, package) if package.registry == "npm" else _in_uv_cache(config, package)
        return next(found, None)
    return None


def _in_npx_cache(config: ServerConfig, package: Package) -> Iterator[str]:
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


def _in_uv_cache(config: ServerConfig, package: Package) -> Iterator[str]:
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
