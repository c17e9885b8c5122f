"""The package in the launch line of a launcher such as `npx` or `uvx`."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

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
_ALONE: Mapping[Registry, frozenset[str]] = {
    "npm": frozenset({"-y", "--yes", "-q", "--quiet", "--offline", "--prefer-offline", "--bun"}),
    "pypi": frozenset({"-q", "--quiet", "--offline", "--isolated", "-n", "--no-cache"}),
}
"""Options that do not change what runs."""
_ENDED_BY_NAME = (("npx",), ("bunx",), ("uvx",), ("uv", "tool", "run"), ("pipx", "run"))
"""Launchers that take no options of their own after the package; others take them anywhere."""
_PYTHON = re.compile(r"\d+(?:\.\d+)*")
# An archive is a file, wherever it is written; so is anything with a slash. A colon is a URL or an alias.
_ELSEWHERE = re.compile(r"\.(?:whl|zip|tar|tgz|gz|bz2|xz|zst|py)\b|[:\\\s]", re.IGNORECASE)


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


def package_in(command: str, args: Sequence[str]) -> Package | None:
    """The package that a command line runs; None if the command is not a known launcher."""
    for _, rest, registry in _launched(command, args):
        if spec := _spec(rest, registry):
            return _parsed(spec, registry)
    return None


def is_launcher(command: str) -> bool:
    """Whether a program can download and run packages."""
    return any(words[0] == _program(command) for words in _LAUNCHERS)


def only_package(command: str, args: Sequence[str]) -> Package | None:
    """The package from the registry that a command line runs, if nothing else runs with it or instead of it.

    None for any option that may add a package, take it from elsewhere, or run another program with it.
    """
    for words, rest, registry in _launched(command, args):
        spec, program, further = _only_spec(rest, registry)
        if spec is None or _ELSEWHERE.search(spec) or spec.count("/") != spec.startswith("@"):
            return None
        if words not in _ENDED_BY_NAME and any(word.startswith("-") for word in _until_dashes(further)):
            return None
        package = _parsed(spec, registry)
        own = (package.name or "").rpartition("/")[2]
        return package if package.name and program in (None, own) else None
    return None


def _program(command: str) -> str:
    return os.path.basename(command).removesuffix(".cmd").removesuffix(".exe")


def _launched(command: str, args: Sequence[str]) -> Iterator[tuple[tuple[str, ...], Sequence[str], Registry]]:
    line = (_program(command), *args)
    for words, registry in _LAUNCHERS.items():
        if line[: len(words)] == words:
            yield words, line[len(words) :], registry


def _only_spec(words: Sequence[str], registry: Registry) -> tuple[str | None, str | None, Sequence[str]]:
    """The package, the program to run if an option names the package, and the words after that.

    No package if there are options that may change what runs.
    """
    named: str | None = None
    rest = list(words)
    while rest:
        word = rest.pop(0)
        option, is_joined, value = word.partition("=")
        if word in _ALONE[registry]:
            continue
        if option in _NAMING[registry] and named is None:
            named = value if is_joined else "".join(rest[:1])
        elif registry == "pypi" and option in ("-p", "--python"):
            if not _PYTHON.fullmatch(value if is_joined else "".join(rest[:1])):
                break
        elif word.startswith("-") and word != "--":
            break
        else:
            first = "".join(rest[:1]) if word == "--" else word
            return (first, None, rest) if named is None else (named, first, rest)
        if not is_joined:
            rest = rest[1:]
    return None, None, ()


def _until_dashes(words: Sequence[str]) -> Sequence[str]:
    return words[: words.index("--")] if "--" in words else words


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
