"""The package in the launch line of a launcher such as `npx` or `uvx`."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Registry: TypeAlias = Literal["npm", "pypi"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dialect:
    """The options of all launchers of one registry, and its versions."""

    naming: tuple[str, ...]
    """The options that name the package, instead of the first word."""
    alone: frozenset[str]
    """Options that do not change what runs."""
    with_value: frozenset[str]
    """Other options with a value."""
    exact: re.Pattern[str]
    """A version that is pinned."""


_DIALECTS: Mapping[Registry, _Dialect] = {
    "npm": _Dialect(
        naming=("-p", "--package"),
        alone=frozenset({"-y", "--yes", "-q", "--quiet", "--offline", "--prefer-offline", "--bun"}),
        with_value=frozenset(
            [
                *("-c", "--call", "-w", "--workspace", "--allow-scripts", "--cache", "--loglevel"),
                *("--prefix", "--registry", "--script-shell", "--tag", "--userconfig"),
            ]
        ),
        exact=re.compile(r"v?\d+\.\d+\.\d+(?:[-+][\w.+-]+)?"),
    ),
    "pypi": _Dialect(
        naming=("--from", "--spec"),
        alone=frozenset({"-q", "--quiet", "--offline", "--isolated", "-n", "--no-cache"}),
        with_value=frozenset(
            [
                *("-w", "--with", "--with-editable", "--with-requirements", "-p", "--python"),
                *("--env-file", "-c", "--constraints", "-b", "--build-constraints", "--overrides"),
                *("--python-platform", "--index", "--default-index", "-i", "--index-url"),
                *("--extra-index-url", "-f", "--find-links", "--index-strategy", "--keyring-provider"),
                *("-P", "--upgrade-package", "--resolution", "--prerelease", "--fork-strategy"),
                *("--exclude-newer", "--reinstall-package", "--link-mode", "-C", "--config-setting"),
                *("--no-build-package", "--no-binary-package", "--cache-dir", "--refresh-package"),
                *("--color", "--allow-insecure-host", "--directory", "--project", "--config-file"),
                *("--torch-backend", "--pip-args", "--suffix"),
            ]
        ),
        exact=re.compile(r"\d+(?:\.\d+)*(?:[\w.+!-]*)"),
    ),
}
_LAUNCHERS: Mapping[tuple[str, ...], tuple[Registry, bool]] = {
    ("npx",): ("npm", True),
    ("bunx",): ("npm", True),
    ("npm", "exec"): ("npm", False),
    ("npm", "x"): ("npm", False),
    ("bun", "x"): ("npm", False),
    ("pnpm", "dlx"): ("npm", False),
    ("yarn", "dlx"): ("npm", False),
    ("uvx",): ("pypi", True),
    ("uv", "tool", "run"): ("pypi", True),
    ("pipx", "run"): ("pypi", True),
}
"""The registry of each launcher, and whether all that follows the package is for the program.

The others take options of their own anywhere.
"""
_COMMIT = re.compile(r"[@#][0-9a-f]{40}\b")
_NAME = re.compile(
    r"(?P<name>@[\w.-]+/[\w.-]+|\w[\w.-]*)(?:\[[^\]]*\])?(?:(?:@|==)(?P<version>.*)|(?P<range>[~<>=!].*))?"
)
_PYTHON = re.compile(r"\d+(?:\.\d+)*")
# An archive is a file, wherever it is written; so is anything with a slash. A colon is a URL or an alias.
_ELSEWHERE = re.compile(r"\.(?:whl|zip|tar|tgz|gz|bz2|xz|zst|py)\b|[:\\\s]", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedPackage:
    """The package in the arguments of a launcher."""

    registry: Registry
    spec: str
    """As written: `name@1.2.3`, `name==1.2.3`, `name`, a URL."""
    name: str | None
    """Its name in the registry; None for a URL or a path."""
    version: str | None
    """The version, if it is pinned."""
    is_pinned: bool


def package_in(command: str, args: Sequence[str]) -> LaunchedPackage | None:
    """The package that a command line runs; None if the command is not a known launcher."""
    for rest, registry, _ in _launched(command, args):
        if spec := _spec(rest, registry):
            return _parsed(spec, registry)
    return None


def is_launcher(command: str) -> bool:
    """Whether a program can download and run packages."""
    return any(words[0] == _program(command) for words in _LAUNCHERS)


def only_package(command: str, args: Sequence[str]) -> LaunchedPackage | None:
    """The package from the registry that a command line runs, if nothing else runs with it or instead of it.

    None for any option that may add a package, take it from elsewhere, or run another program with it.
    """
    for rest, registry, is_ended in _launched(command, args):
        spec, program, further = _only_spec(rest, registry)
        if spec is None or _ELSEWHERE.search(spec) or spec.count("/") != spec.startswith("@"):
            return None
        if not is_ended and any(word.startswith("-") for word in _until_dashes(further)):
            return None
        package = _parsed(spec, registry)
        own = (package.name or "").rpartition("/")[2]
        return package if package.name and program in (None, own) else None
    return None


def _program(command: str) -> str:
    return os.path.basename(command).removesuffix(".cmd").removesuffix(".exe")


def _launched(command: str, args: Sequence[str]) -> Iterator[tuple[Sequence[str], Registry, bool]]:
    line = (_program(command), *args)
    for words, (registry, is_ended) in _LAUNCHERS.items():
        if line[: len(words)] == words:
            yield line[len(words) :], registry, is_ended


def _only_spec(words: Sequence[str], registry: Registry) -> tuple[str | None, str | None, Sequence[str]]:
    """The package, the program to run if an option names the package, and the words after that.

    No package if there are options that may change what runs.
    """
    named: str | None = None
    rest = list(words)
    while rest:
        word = rest.pop(0)
        option, is_joined, value = word.partition("=")
        if word in _DIALECTS[registry].alone:
            continue
        if option in _DIALECTS[registry].naming and named is None:
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
        if option in _DIALECTS[registry].naming:
            return value or next(waiting, None)
        if word in _DIALECTS[registry].with_value:
            next(waiting, None)
        elif not word.startswith("-"):
            return word
    return None


def _parsed(spec: str, registry: Registry) -> LaunchedPackage:
    found = _NAME.fullmatch(spec)
    # A URL, a path, or a repository such as `owner/name` and `github:owner/name`.
    if found is None or "://" in spec:
        is_pinned = bool(_COMMIT.search(spec))
        return LaunchedPackage(registry=registry, spec=spec, name=None, version=None, is_pinned=is_pinned)
    written = found["version"] or ""
    version = written if _DIALECTS[registry].exact.fullmatch(written) else None
    return LaunchedPackage(
        registry=registry, spec=spec, name=found["name"], version=version, is_pinned=version is not None
    )
