"""The versions of servers that came from a registry: which one is pinned, and the entry of another one."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from toolbus.config.launch.patterns import package_in
from toolbus.config.model import ServerConfig
from toolbus.config.registry.bundle import BUNDLE_FOLDER
from toolbus.config.registry.document import PublishedPackage, PublishedServer
from toolbus.config.registry.launchers import image_of, repository
from toolbus.core.text.display import shortened
from toolbus.core.values.errors import ConfigError

Texts: TypeAlias = Mapping[tuple[str | int, ...], str]
"""New texts of an entry, by their place in it: `("args", 1)`."""
_NAMED = re.compile(r"(?P<name>[^@\s]+?)(?:@(?P<version>[^@\s]+))?")
_RUNNERS = ("docker", "podman", "nerdctl", "dnx")


def split_origin(text: str) -> tuple[str, str]:
    """The name and the version in `io.github.user/thing@1.2.3`; the version may be empty."""
    found = _NAMED.fullmatch(text)
    return (found["name"], found["version"] or "") if found else (text, "")


def version_key(version: str) -> tuple[tuple[int, int, str], ...]:
    """A key by which versions sort: numbers by their value, and `1.0-beta` before `1.0`."""
    parts = re.findall(r"\d+|[A-Za-z]+", version.partition("+")[0].removeprefix("v"))
    numbers = [(1, int(part), "") if part.isdigit() and len(part) < 19 else (-1, 0, part) for part in parts]
    return (*numbers, (0, 0, ""))


def unpinned(config: ServerConfig) -> str | None:
    """A warning if another version may run than the one from the registry; None if it is pinned."""
    if config.registry is None or config.command is None:
        return None
    package = package_in(config.command, config.args)
    if package is not None:
        spec, is_pinned = package.spec, package.is_pinned
    elif os.path.basename(config.command) in _RUNNERS:
        spec = " ".join(config.args)
        is_pinned = re.search(r"@sha256:|(?::|@)v?(?!latest\b)[\w.+-]*\d", spec) is not None
    else:
        return None
    if is_pinned:
        return None
    return f"{config.registry} was added, but {shortened(spec)!r} runs whatever version is published"


def updated_package(config: ServerConfig, server: PublishedServer) -> PublishedPackage | None:
    """The package of the new version that the entry already uses; None for a remote server.

    ConfigError if the new version has another package or URL: that is another program or host.
    """
    if config.url is not None:
        urls = [one.url for one in (*server.remotes, *(one.transport for one in server.packages))]
        if any("{" in url or url == config.url for url in urls):
            return None
    found = next((one for one in server.packages if _places(config, one)), None)
    if found is None or found.problem is not None:
        new = ", ".join([one.identifier for one in server.packages] + [one.url for one in server.remotes])
        raise ConfigError(
            f"{server.origin} no longer has the package or URL of the entry, but {shortened(new, 200)}; "
            f"to use that, run toolbus remove {config.alias}, then toolbus add {server.name}",
            server=config.alias,
        )
    return found


def updated_texts(
    config: ServerConfig, server: PublishedServer, package: PublishedPackage | None, bundle: Path | None
) -> Texts:
    """The texts that change with the new version; `bundle` is the folder of its files, if it is one."""
    texts: dict[tuple[str | int, ...], str] = {("registry",): server.origin}
    for place in _places(config, package) if package else ():
        word = config.command if place == ("command",) else config.args[int(place[1])]
        assert package is not None
        assert word is not None
        if bundle is not None:
            texts[place] = _BUNDLED.sub(lambda _: str(bundle).replace("${", "$${"), word)
        elif package.registry_type == "oci":
            texts[place] = image_of(package)
        else:
            head = re.split(r"@(?!.*/)|==", word[1:])[0]
            joint = "==" if "==" in word else "@"
            texts[place] = f"{word[0]}{head}{joint}{package.version}" if package.version else word
    for name, text in config.env.items():
        if bundle is not None and _BUNDLED.search(text):
            texts["env", name] = _BUNDLED.sub(lambda _: str(bundle).replace("${", "$${"), text)
    return texts


_BUNDLED = re.compile(rf"[^\s=:]*/{BUNDLE_FOLDER}/[0-9a-f]{{32}}(?=/|$)")


def _places(config: ServerConfig, package: PublishedPackage) -> list[tuple[str | int, ...]]:
    """The places of the entry that name the package."""
    words: list[tuple[tuple[str | int, ...], str]] = [(("command",), config.command or "")]
    words += [(("args", index), word) for index, word in enumerate(config.args)]
    return [place for place, word in words if _is_of(word, package)]


def _is_of(word: str, package: PublishedPackage) -> bool:
    if package.registry_type == "mcpb":
        return _BUNDLED.search(word) is not None
    if package.registry_type == "oci":
        return repository(word) == repository(package.identifier)
    name = re.escape(package.identifier.partition("[")[0])
    return re.fullmatch(rf"{name}(?:\[[^\]]*\])?(?:(?:@|==).*)?", word, re.IGNORECASE) is not None
