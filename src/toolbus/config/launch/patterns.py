"""The package that a command line runs, and an administrator's patterns for command lines, packages and URLs.

In doubt, a pattern in `allow` does not match, and a pattern in `deny` does. So in `allow`, a `*` inside a
word matches neither `/` nor `:`, and the whole command line has to match. In `deny`, it matches anything, and
further arguments do not matter.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from toolbus.core.text.display import ascii_host

Registry: TypeAlias = Literal["npm", "pypi"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dialect:
    """The options of all launchers of one registry, and its versions."""

    naming: tuple[str, ...]
    """The options that name the package, instead of the first word."""
    alone: frozenset[str]
    """Options that do not change the program that runs."""
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
            return _package(spec, registry)
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
        package = _package(spec, registry)
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

    The package is None if an option may change the program that runs.
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


def _package(spec: str, registry: Registry) -> LaunchedPackage:
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


_PORTS = {"http": 80, "https": 443}
_URL = re.compile(
    r"(?P<scheme>[\w*+.-]+)://(?P<host>\[[\w:.*]+\]|[^/:@?#\[\]\s]+)(?::(?P<port>\d+|\*))?(?P<path>/[^?#\s]*)?"
)
_PACKAGE = re.compile(r"(?P<registry>npm|pypi):(?P<name>@[\w.*-]+/[\w.*-]+|[\w.*-]+)")
_ODD = re.compile(r"[\x00-\x20\x7f\\]")
_PIECE = re.compile(r"[^\s;&|'\"()]+")
_SEPARATOR = re.compile(r"[/=:,]")
_NAMES = re.compile(r"@[\w.-]+/[\w.-]+|[\w.-]+")
_HIJACKING = re.compile(
    r"PATH|LD_.*|DYLD_.*|GCONV_PATH|NODE_(?:OPTIONS|PATH|EXTRA_CA_CERTS|TLS_REJECT_UNAUTHORIZED)"
    r"|PYTHON(?:PATH|HOME|STARTUP|EXECUTABLE|USERBASE|PYCACHEPREFIX|PLATLIBDIR|WARNINGS|BREAKPOINT)"
    r"|(?:BASH_)?ENV|SHELL|PERL5.*|RUBY(?:OPT|LIB)|CLASSPATH|_?JAVA_(?:TOOL_)?OPTIONS|JDK_JAVA_OPTIONS"
    r"|DOTNET_STARTUP_HOOKS|CORECLR_.*"
    r"|GIT_(?:EXEC_PATH|SSH.*|CONFIG.*|DIR|COMMON_DIR|TEMPLATE_DIR|ASKPASS|PROXY_COMMAND|EXTERNAL_DIFF)"
    r"|(?:GIT_)?(?:PAGER|EDITOR|SEQUENCE_EDITOR)|SSH_ASKPASS|OPENSSL_(?:CONF|ENGINES|MODULES)"
    # Where launchers find their settings, caches and the certificates of a registry.
    r"|HOME|USERPROFILE|XDG_.*|SSL_CERT_.*|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
    r"|NPM_CONFIG_.*|COREPACK_.*|YARN_.*|BUN_.*|PNPM_.*|PIP_.*|PIPX_.*|UV_.*|VIRTUAL_ENV",
    re.IGNORECASE,
)
"""Variables that decide which program or package runs, or which code it loads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedLaunch:
    """The resolved way to start or reach a server, with every reference filled in."""

    command: str | None = None
    args: tuple[str, ...] = ()
    variables: frozenset[str] = frozenset()
    """The names that its `env` sets."""
    cwd: str | None = None
    inherits: bool = True
    """Whether it gets our PATH."""
    works_in: str | None = None
    """The folder that it runs in; None if that is not known yet."""
    is_moved: bool = False
    """Whether its config chose that folder, rather than the user who started toolbus."""
    url: str | None = None
    reads: tuple[str, ...] = ()
    """The paths that its sandbox opens."""
    writes: tuple[str, ...] = ()

    @property
    def hijacking(self) -> str | None:
        """A variable of its `env` that decides what runs."""
        return min((name for name in self.variables if _HIJACKING.fullmatch(name)), default=None)

    @property
    def path(self) -> str | None:
        """The absolute path of its program; None if it is not found."""
        command = os.path.expanduser(self.command or "")
        if os.path.dirname(command):
            return os.path.abspath(os.path.join(self.cwd or "", command))
        # As it is looked up to be started: also next to our own interpreter.
        ours = os.environ.get("PATH", os.defpath) if self.inherits else os.defpath
        places = ours, os.path.dirname(sys.executable)
        found = shutil.which(command, path=os.pathsep.join(places))
        return found and os.path.abspath(found)


def argv_allowed(pattern: Sequence[str], launch: ResolvedLaunch) -> bool:
    """Whether the whole command line matches."""
    first, *rest = pattern
    command = launch.command or ""
    if "/" in first:
        if launch.path is None or not _word_allowed(first, launch.path):
            return False
    elif "/" in command or not _word_allowed(first, command):
        return False
    if rest[-1:] == ["**"]:
        rest = rest[:-1]
    elif len(rest) != len(launch.args):
        return False
    return len(rest) <= len(launch.args) and all(map(_word_allowed, rest, launch.args))


def local_word(pattern: Sequence[str], launch: ResolvedLaunch) -> str | None:
    """An argument by which a pattern means a program, and that is in the folder where the server runs."""
    if launch.works_in is None:
        return None
    before = ("", *launch.args)
    for wanted, word, option in zip(pattern[1:], launch.args, before, strict=False):
        if wanted in ("*", "**") or word.startswith("/"):
            continue
        module = word.partition(".")[0]
        names = {word, word.partition("=")[2], *((module, f"{module}.py") if option == "-m" else ())}
        if any(name and os.path.exists(os.path.join(launch.works_in, name)) for name in names):
            return word
    return None


def _word_allowed(pattern: str, word: str) -> bool:
    # A `*` behind a folder must not lead out of it.
    leads_out = pattern not in ("*", "**") and ".." in _SEPARATOR.split(word)
    return bool(_glob(pattern, strict=True).fullmatch(word)) and (not leads_out or pattern == word)


def argv_denied(pattern: Sequence[str], launch: ResolvedLaunch) -> bool:
    """Whether the command line begins as the pattern; the program also by its path or its base name."""
    first, *rest = pattern
    if rest[-1:] == ["**"]:
        rest = rest[:-1]
    paths = {
        path for path in (launch.command, launch.path, launch.path and os.path.realpath(launch.path)) if path
    }
    names = {name.casefold() for path in paths for name in (path, os.path.basename(path))}
    program = _glob(first.casefold(), strict=False)
    return (
        any(program.fullmatch(name) for name in names)
        and len(rest) <= len(launch.args)
        and all(
            _glob(word, strict=False).fullmatch(arg) for word, arg in zip(rest, launch.args, strict=False)
        )
    )


def package_allowed(pattern: str, launch: ResolvedLaunch) -> bool:
    """Whether it runs a package of that name from that registry, and certainly nothing else."""
    package = only_package(launch.command or "", launch.args)
    if package is None or package.name is None:
        return False
    registry, _, name = pattern.partition(":")
    found = _normalized(package.name, package.registry)
    return registry == package.registry and bool(
        _glob(_normalized(name, package.registry), strict=True).fullmatch(found)
    )


def package_denied(pattern: str, launch: ResolvedLaunch) -> bool:
    """Whether it runs, or may run, a package of that name from that registry."""
    registry, _, name = pattern.partition(":")
    known: Registry = "npm" if registry == "npm" else "pypi"
    wanted = _glob(_normalized(name, known).casefold(), strict=False)
    package = only_package(launch.command or "", launch.args)
    if package is not None and package.name is not None:
        return package.registry == known and bool(
            wanted.fullmatch(_normalized(package.name, known).casefold())
        )
    # Also inside of a word: `sh -c "npx NAME"`.
    line = [piece for word in (launch.command or "", *launch.args) for piece in _PIECE.findall(word)]
    at = next((index for index, word in enumerate(line) if is_launcher(word)), len(line))
    found = (name for word in line[at + 1 :] for name in _NAMES.findall(word))
    return any(wanted.fullmatch(_normalized(name, known).casefold()) for name in found)


def url_allowed(pattern: str, url: str) -> bool:
    """Whether scheme, host, port and path match; the scheme's default port is implied."""
    found, wanted = _parsed(url), _URL.fullmatch(pattern)
    if found is None or wanted is None or _ODD.search(url):
        return False
    port = wanted["port"] or str(_PORTS.get(found.scheme, 0))
    path = wanted["path"]
    return (
        fnmatchcase(found.scheme, wanted["scheme"].lower())
        and _host_matches(wanted["host"], found, strict=True)
        and port in ("*", str(found.port))
        and (
            path in (None, "/*") or (found.is_plain and bool(_anything(unquote(path)).fullmatch(found.path)))
        )
    )


def url_denied(pattern: str, url: str) -> bool:
    """Whether scheme, host and path match; the port matters only if the pattern has one."""
    found, wanted = _parsed(url), _URL.fullmatch(pattern)
    if found is None or wanted is None:
        return True  # nothing can be reached there
    path = _anything(unquote(wanted["path"] or "/*"))
    return (
        fnmatchcase(found.scheme, wanted["scheme"].lower())
        and _host_matches(wanted["host"], found, strict=False)
        and (wanted["port"] or "*") in ("*", str(found.port))
        and any(path.fullmatch(one) for one in (found.path, os.path.normpath(found.path)))
    )


def path_allowed(pattern: str, path: str) -> bool:
    """Whether the path, or a folder that contains it, matches after links are followed."""
    if pattern.startswith("~"):
        pattern = os.path.realpath(os.path.expanduser("~")) + pattern[1:]
    real = os.path.realpath(path)
    wanted = _glob(pattern.rstrip("/"), strict=True)
    while real != os.sep:
        if wanted.fullmatch(real):
            return True
        real = os.path.dirname(real)
    return False


def path_problem(pattern: str) -> str | None:
    """The reason why a pattern for paths cannot be used."""
    if re.match(r"(~?/[^/\0]|~$)", pattern) and not {".", ".."} & set(pattern.split("/")):
        return None
    return "expected a whole path, such as /srv/* or ~/projects, without . and .."


def hook_allowed(pattern: str, names: Iterable[str], paths: Sequence[str]) -> bool:
    """Whether it lists a station: an installed one by name, one beside a config by its files."""
    if _is_path(pattern):
        return bool(paths) and all(path_allowed(pattern, path) for path in paths)
    return not paths and any(_anything(pattern).fullmatch(name) for name in names)


def hook_denied(pattern: str, names: Iterable[str], paths: Sequence[str]) -> bool:
    """Whether it means a station, by a name or by the path of any of its files."""
    if _is_path(pattern):
        return any(path_allowed(pattern, path) for path in paths)
    return any(_anything(pattern).fullmatch(name) for name in names)


def hook_problem(pattern: str) -> str | None:
    """The reason why a pattern for hooks cannot be used."""
    if _is_path(pattern):
        return path_problem(pattern)
    is_name = re.fullmatch(r"[\w.*?-]+(:[\w.*?]+)?", pattern)
    return None if is_name else "expected module:name, the name of an entry point, or a whole path"


def _is_path(pattern: str) -> bool:
    return pattern.startswith(("/", "~"))


def argv_problem(pattern: Sequence[str]) -> str | None:
    """The reason why a pattern for command lines cannot be used."""
    return None if pattern and pattern[0] else "is empty; write a program and its arguments"


def url_problem(pattern: str) -> str | None:
    """The reason why a pattern for URLs cannot be used."""
    if wanted := _URL.fullmatch(pattern):
        try:
            _ascii_pattern(wanted["host"] if wanted["scheme"] != "http+unix" else "")
        except ValueError as error:
            return str(error)
        return None
    return "expected SCHEME://HOST[:PORT][/PATH], with * for any part, and no user, query or fragment"


def package_problem(pattern: str) -> str | None:
    """The reason why a pattern for packages cannot be used."""
    if _PACKAGE.fullmatch(pattern):
        return None
    return "expected npm:NAME or pypi:NAME, with * for any part, and no version"


@dataclass(frozen=True, slots=True)
class _Address:
    scheme: str
    host: str
    port: int
    path: str
    """Decoded."""

    @property
    def is_plain(self) -> bool:
        """Whether no server can take the path for another one."""
        return not _ODD.search(self.path) and not {".", ".."} & set(self.path.split("/"))


def _parsed(url: str) -> _Address | None:
    """The parts of a URL, as the connection takes them; None if it is not one."""
    try:
        parts = urlsplit(url)
        netloc = parts.netloc.rpartition("@")[2]
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
        if parts.scheme == "http+unix":
            host, port = os.path.normpath(unquote(netloc)) if netloc else "", 0
        else:
            host = ascii_host(host)
    except ValueError:
        return None
    path = parts.path or "/"
    while (decoded := unquote(path)) != path:
        path = decoded
    return _Address(parts.scheme, host, port, path) if host else None


def _host_matches(pattern: str, found: _Address, *, strict: bool) -> bool:
    if found.scheme == "http+unix":
        return bool(_glob(unquote(pattern), strict=strict).fullmatch(found.host))
    try:
        pattern = _ascii_pattern(pattern)
    except ValueError:
        return not strict
    return fnmatchcase(found.host if strict else found.host.rstrip("."), pattern)


def _ascii_pattern(host: str) -> str:
    """A pattern for hosts as they are compared with it; ValueError if a part of it has no such form."""
    # Part by part: `*.faß.de` is not a name itself.
    return ".".join(map(ascii_host, host.strip("[]").split(".")))


def _normalized(name: str, registry: Registry) -> str:
    """PyPI does not tell case, `-`, `_` and `.` apart."""
    return re.sub(r"[-_.]+", "-", name).lower() if registry == "pypi" else name


def _anything(pattern: str) -> re.Pattern[str]:
    return _glob(pattern, strict=False)


@lru_cache(maxsize=1024)
def _glob(pattern: str, *, strict: bool) -> re.Pattern[str]:
    """Only `*` and `?` have a meaning; `**`, and a `*` that is the whole word, match anything."""
    character = "[^/:]" if strict and pattern != "*" else "."
    pieces = {"**": ".*", "*": f"{character}*", "?": character}
    words = re.split(r"(\*\*|\*|\?)", pattern)
    return re.compile("".join(pieces.get(word) or re.escape(word) for word in words), re.DOTALL)
