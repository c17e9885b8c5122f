"""From a published server to a config entry: the ways to start it, its inputs, and the entry itself.

References that a publisher writes are escaped. So `${...}` reads no variable, file or keyring of the user,
and runs no command.
"""

import os.path
import platform
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from toolbus.config.launch.patterns import ResolvedLaunch
from toolbus.config.load import load_server
from toolbus.config.location import near_miss
from toolbus.config.registry.bundle import Bundle, joined_texts, opened_bundle
from toolbus.config.registry.document import (
    KINDS,
    PublishedInput,
    PublishedPackage,
    PublishedServer,
    RemoteServer,
)
from toolbus.config.registry.launchers import INSTALL_LINES, LAUNCHERS, LaunchLine, image_of
from toolbus.config.secrets.literals import Secret, SecretNames, env_name
from toolbus.config.secrets.reference import Reference, parsed
from toolbus.core.text.display import shortened
from toolbus.core.text.lookalikes import looks
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON, OWN

GENERIC = frozenset(
    {"mcp", "server", "mcp-server", "mcp_server", "servers", "mcp-servers", "mcpserver", "api", "app"}
)
"""Last parts of names that say nothing; the alias is the namespace's."""
# Some publishers write `${NAME}`, which asks as well; `${HOME}` is the user's folder.
_VARIABLE = re.compile(r"(?:\$(?=\{(?!HOME\}))|(?<!\$))\{([A-Za-z_][\w.-]*)\}")
_SYSTEMS = {
    "darwin": r"darwin|macos|osx|apple",
    "linux": r"linux",
    "win32": r"windows|win32|win64|\.exe\b",
}
_MACHINES = {"arm64": r"arm64|aarch64", "x86_64": r"amd64|x64|x86[_-]64"}
_ALIASES = {"aarch64": "arm64", "amd64": "x86_64"}
_BOOLEANS = {"true": "true", "yes": "true", "1": "true", "false": "false", "no": "false", "0": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchChoice:
    """One way to use a server: one of its packages or remotes."""

    server: PublishedServer
    kind: str
    """`remote`, or the package type: `npm`, `pypi`, `oci`, `nuget`, `mcpb`, ..."""
    remote: RemoteServer | None = None
    package: PublishedPackage | None = None
    bundle: Bundle | None = None
    """The bundle of an `mcpb` package, once it has been downloaded."""
    problem: str | None = None
    """The reason why it cannot be used, with the next step; None if it can."""

    @property
    def label(self) -> str:
        """A line for a list to choose from: `npm @scope/name@1.2.3`."""
        if self.remote is not None:
            return f"remote {self.remote.url}"
        package = self.package
        if package is None:
            return self.kind
        name = image_of(package) if self.kind == "oci" else package.identifier
        version = f"@{package.version}" if package.version and self.kind not in ("oci", "mcpb") else ""
        over = "" if package.transport.type == "stdio" else f" ({package.transport.type}, start it yourself)"
        return f"{self.kind} {name}{version}{over}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedEntry:
    """A config entry, the secrets it refers to, and what a person should know before using it."""

    config: Mapping[str, JSON] = field(repr=False)
    secrets: tuple[Secret, ...] = ()
    warnings: tuple[str, ...] = ()


def choices(server: PublishedServer) -> list[LaunchChoice]:
    """Every way to use the server, the default first; those with a `problem` last."""
    found = [LaunchChoice(server=server, kind="remote", remote=one) for one in server.remotes]
    found += [LaunchChoice(server=server, kind=one.registry_type, package=one) for one in server.packages]
    return sorted((replace(one, problem=_problem(one)) for one in found), key=_rank)


def chosen(server: PublishedServer, kind: str | None = None) -> LaunchChoice:
    """The default way to use the server, or the first of that kind; ConfigError with the reason if none."""
    every = choices(server)
    found = [one for one in every if kind in (None, one.kind)]
    if not found:
        reason = "its server.json names no package and no URL; ask its publisher how to start it"
        if every:
            reason = f"it has no {kind!r}, only {', '.join(sorted({one.kind for one in every}))}"
        raise ConfigError(f"{server.name} cannot be started: {reason}")
    if found[0].problem is not None:
        raise ConfigError(f"{server.name} cannot be started: {found[0].problem}")
    return found[0]


def with_bundle(choice: LaunchChoice, content: bytes) -> LaunchChoice:
    """The choice of an `mcpb` package with its downloaded file; ConfigError if the digest differs."""
    assert choice.package is not None
    bundle = opened_bundle(content, sha256_hex=choice.package.file_sha256, file=choice.package.identifier)
    return replace(choice, bundle=bundle)


def bundle_choice(content: bytes, *, file: str | None = None) -> LaunchChoice:
    """The choice for an `.mcpb` file that the user has; ConfigError if it is refused."""
    bundle = opened_bundle(content, file=file)
    return LaunchChoice(server=bundle.server, kind="mcpb", bundle=bundle)


def inputs(choice: LaunchChoice) -> list[PublishedInput]:
    """The inputs that a user may set, each by its `label`."""
    found: dict[str, PublishedInput] = {}
    for one in _fields(choice):
        for inner in _asked(one):
            known = found.get(inner.label)
            if known is None or (inner.is_required and not known.is_required):
                found[inner.label] = inner
    return list(found.values())


def missing(choice: LaunchChoice, values: Mapping[str, tuple[str, ...]]) -> list[PublishedInput]:
    """The required inputs that have neither a value nor a default."""
    return [
        one for one in inputs(choice) if one.is_required and not one.default and not values.get(one.label)
    ]


def alias_for(server: PublishedServer) -> str:
    """A name for the server in a config: the last part of its name, or the namespace's if that is generic."""
    namespace, _, last = server.name.rpartition("/")
    name = namespace.rpartition(".")[2] if last.lower() in GENERIC else last
    name = re.sub(r"[^\w.-]", "-", name).strip("-._") or "server"
    return f"{name}-mcp" if looks(name)[2] == looks(OWN)[2] else name


def entry(
    choice: LaunchChoice,
    values: Mapping[str, tuple[str, ...]],
    *,
    alias: str,
    names: SecretNames | None = None,
    avoid: frozenset[str] = frozenset(),
) -> ConvertedEntry:
    """The config entry of a choice with these values; ConfigError if one is missing or invalid.

    Values are the user's, by the label of an input, and may be references. A secret becomes a reference to a
    name from `names` that is not in `avoid`. Other names in `values` are further environment variables.
    """
    if choice.problem is not None:
        raise ConfigError(choice.problem)
    if lacking := missing(choice, values):
        raise ConfigError(f"missing a value for {', '.join(one.label for one in lacking)}", server=alias)
    filling = _Filling(alias=alias, values=values, names=names or SecretNames({}), avoid=avoid)
    if choice.remote is not None:
        _check_known(choice, values, alias)
        config = _reached(choice.remote, filling, None)
    else:
        line = _line(choice, filling)
        transport = choice.package.transport if choice.package else RemoteServer()
        if transport.type == "stdio":
            env = {"env": line.env} if line.env else {}
            config = {"command": line.command, "args": line.args, **env}
        else:
            filling.warnings.append(f"toolbus only connects to it; start it first: {_shown(line)}")
            config = _reached(transport, filling, choice.package)
    config["registry"] = choice.server.origin
    load_server(config, alias=alias)
    warnings = (*_warnings(choice), *filling.warnings)
    return ConvertedEntry(config=config, secrets=tuple(filling.secrets), warnings=warnings)


def literal(text: str) -> str:
    """The text of a publisher for a config: `${` is escaped, except in `${HOME}`."""
    return re.sub(r"\$(?=\{)(?!\{HOME\})", "$$", text)


def _problem(choice: LaunchChoice) -> str | None:
    remote, package = choice.remote, choice.package
    if remote is not None:
        if remote.type == "stdio" or not re.match(r"https?://", remote.url, re.IGNORECASE):
            return f"its URL {shortened(remote.url)!r} does not start with https://"
        return None
    assert package is not None
    kind = package.registry_type
    if kind in INSTALL_LINES:
        line = INSTALL_LINES[kind].format(
            id=shortened(package.identifier), version=package.version or "latest"
        )
        return f"install it: {line}; then run: toolbus add NAME -- PROGRAM"
    if kind not in KINDS:
        return f"toolbus does not know packages of type {shortened(kind)!r}; install it, and add its command"
    return package.problem


def _rank(choice: LaunchChoice) -> tuple[bool, int, bool, bool]:
    """Usable ones first, then remotes, npm and PyPI; packages that need a manual start come last."""
    order = ("remote", *KINDS)
    where = choice.remote or (choice.package.transport if choice.package else RemoteServer())
    place = order.index(choice.kind) if choice.kind in order else len(order)
    is_manual = choice.package is not None and where.type != "stdio"
    is_foreign = choice.package is not None and choice.kind == "mcpb" and not _is_for_us(choice.package)
    return choice.problem is not None, len(order) if is_manual else place, is_foreign, where.type == "sse"


def _is_for_us(package: PublishedPackage) -> bool:
    text = f"{package.runtime_hint} {package.identifier.rpartition('/')[2]}".lower()
    machine = platform.machine().lower()
    return _names(text, _SYSTEMS, sys.platform) and _names(text, _MACHINES, _ALIASES.get(machine, machine))


def _names(text: str, known: Mapping[str, str], ours: str) -> bool:
    named = {name for name, pattern in known.items() if re.search(rf"(?<![a-z])(?:{pattern})", text)}
    return not named or ours in named


def _fields(choice: LaunchChoice) -> Iterator[PublishedInput]:
    """Every field that goes into the entry."""
    package = choice.package
    if choice.bundle is not None:
        yield from choice.bundle.fields
    is_manual = package is not None and package.transport.type != "stdio"
    if package is not None:
        yield from (*package.environment_variables, *package.runtime_arguments, *package.package_arguments)
    reached = choice.remote or (package.transport if package is not None and is_manual else None)
    if reached is not None:
        yield _url_field(reached, package)
        yield from reached.headers


def _url_field(remote: RemoteServer, package: PublishedPackage | None) -> PublishedInput:
    """The URL as a field; a `{port}` in it is the argument, or the variable of one, of that name."""
    arguments = (*package.runtime_arguments, *package.package_arguments) if package else ()
    known: dict[str, PublishedInput] = {}
    for one in arguments:
        known |= {one.label: one, **({one.value_hint: one} if one.value_hint else {}), **one.variables}
    return PublishedInput(
        name="url", value=remote.url, is_required=True, variables={**known, **remote.variables}
    )


def _asked(one: PublishedInput) -> Iterator[PublishedInput]:
    """The inputs of a field: its variables, or itself unless the publisher has set its value."""
    if not one.value:
        if not _is_bare(one):
            yield one
        return
    for name in dict.fromkeys(_VARIABLE.findall(one.value)):
        yield _inner(one, name)


def _inner(one: PublishedInput, name: str) -> PublishedInput:
    known = one.variables.get(name)
    inner = known or PublishedInput(description=one.description, is_required=one.is_required)
    is_secret = inner.is_secret or (one.is_secret and (known is None or len(one.variables) == 1))
    return inner.model_copy(update={"name": name, "is_secret": is_secret})


def _is_bare(one: PublishedInput) -> bool:
    """Whether it is a switch such as `--rm`, which has no value."""
    hints = (one.value, one.default, one.placeholder, one.value_hint, one.choices, one.variables, one.format)
    return one.is_named and not any(hints) and not one.is_secret and not one.is_required


@dataclass(slots=True, kw_only=True, repr=False)
class _Filling:
    """Fills the values of one entry in, and collects its secrets."""

    alias: str
    values: Mapping[str, tuple[str, ...]]
    names: SecretNames
    avoid: frozenset[str]
    secrets: list[Secret] = field(default_factory=list[Secret])
    warnings: list[str] = field(default_factory=list[str])

    def texts(self, one: PublishedInput) -> tuple[str, ...]:
        """The values of a field; empty if it is left out."""
        names = _VARIABLE.findall(one.value)
        if not one.value or (one.label in self.values and one.label not in names):
            return self.own(one)
        settled = {name: self.own(_inner(one, name)) for name in names}
        if not all(settled.values()):
            return ()
        parts = _VARIABLE.split(one.value)  # text and names take turns
        return (
            joined_texts(settled[part][0] if odd % 2 else literal(part) for odd, part in enumerate(parts)),
        )

    def own(self, one: PublishedInput) -> tuple[str, ...]:
        """The user's values, or the default."""
        given = self.values.get(one.label, ())
        if not given:
            return (literal(one.default),) if one.default else ()
        if len(given) > 1 and not one.is_repeated:
            raise ConfigError("takes one value", server=self.alias, key=one.label)
        return tuple(self._checked(one, text) for text in given)

    def words(self, one: PublishedInput, *, is_runtime: bool) -> list[str]:
        """The words of an argument in a command line."""
        texts = self.texts(one)
        if one.is_secret and texts:
            self.warnings.append(
                f"{one.label} is on the server's command line, where other users of this machine can see it"
            )
        if not one.is_named:
            return list(texts)
        name = literal(one.name if one.name.startswith("-") else f"--{one.name}")
        if _is_bare(one) and (is_runtime and not texts):
            return [name]
        if one.format == "boolean" or (_is_bare(one) and texts == ("true",)):
            return [name] if texts == ("true",) else []
        return [word for text in texts for word in (name, text)]

    def _checked(self, one: PublishedInput, text: str) -> str:
        parts = parsed(text, server=self.alias, key=one.label)
        if any(isinstance(part, Reference) for part in parts):
            return text
        if one.choices and text not in one.choices:
            known = shortened(", ".join(one.choices), 300)
            raise ConfigError(f"expected one of {known}", server=self.alias, key=one.label)
        if one.format == "number" and not re.fullmatch(r"[+-]?\d+(?:\.\d+)?", text):
            raise ConfigError("expected a number", server=self.alias, key=one.label)
        if one.format == "boolean":
            if text.lower() not in _BOOLEANS:
                raise ConfigError("expected true or false", server=self.alias, key=one.label)
            return _BOOLEANS[text.lower()]
        if one.is_secret:
            return self._secret(one, text)
        return os.path.expanduser(text) if one.format == "filepath" else text

    def _secret(self, one: PublishedInput, text: str) -> str:
        same = (secret for secret in self.secrets if (secret.key, secret.value) == (one.label, text))
        known = next(same, None)
        if known is None:
            is_variable = re.fullmatch(r"[A-Z][A-Z0-9_]*", one.label)
            wanted = one.label if is_variable else f"{env_name(self.alias)}_{env_name(one.label)}"
            name = self.names.name(wanted, self.alias, text, avoid=self.avoid)
            known = Secret(server=self.alias, key=one.label, name=name, value=text)
            self.secrets.append(known)
        return f"${{{known.name}}}"


def _line(choice: LaunchChoice, filling: _Filling) -> LaunchLine:
    """The command line of a package or bundle."""
    package, env = choice.package, dict[str, str]()
    for one in package.environment_variables if package else ():
        if one.name and not re.fullmatch(r"[\w.-]+", one.name):
            filling.warnings.append(f"{shortened(one.name)!r} is not the name of a variable; it was left out")
        elif one.name and (texts := filling.texts(one)):
            env[one.name] = texts[0]
    known = {one.label for one in inputs(choice)}
    fields = {one.label for one in _fields(choice)}
    env |= {name: texts[-1] for name, texts in filling.values.items() if name not in known | fields}
    runtime = [word for one in _arguments(package, "runtime") for word in filling.words(one, is_runtime=True)]
    further = [word for one in _arguments(package, "own") for word in filling.words(one, is_runtime=False)]
    if choice.bundle is not None:
        line = choice.bundle.line(lambda one: filling.own(one))
        line.args += further
        line.env |= env
    elif package is None or package.registry_type not in LAUNCHERS:
        raise ConfigError(f"{choice.label} has to be downloaded first", server=filling.alias)
    else:
        line = LAUNCHERS[package.registry_type](package, (runtime, further), env)
    filling.warnings += line.warnings
    if (name := ResolvedLaunch(variables=frozenset(line.env)).hijacking) is not None:
        filling.warnings.append(f"{name} decides which code is run; check its value")
    return line


def _check_known(choice: LaunchChoice, values: Mapping[str, tuple[str, ...]], alias: str) -> None:
    known = [one.label for one in inputs(choice)]
    for name in values:
        if name not in known:
            listed = f"; it has {', '.join(known)}" if known else "; it has none"
            raise ConfigError(f"has no input {name!r}{near_miss(name, known) or listed}", server=alias)


def _arguments(package: PublishedPackage | None, which: str) -> tuple[PublishedInput, ...]:
    if package is None:
        return ()
    return package.runtime_arguments if which == "runtime" else package.package_arguments


def _reached(remote: RemoteServer, filling: _Filling, package: PublishedPackage | None) -> dict[str, JSON]:
    """The entry of a URL."""
    url = "".join(filling.texts(_url_field(remote, package)))
    headers = {one.name: texts[0] for one in remote.headers if (texts := filling.texts(one))}
    transport = {"transport": "sse"} if remote.type == "sse" else {}
    return {**transport, "url": url, **({"headers": headers} if headers else {})}


def _shown(line: LaunchLine) -> str:
    return shlex.join([line.command, *line.args])


def _warnings(choice: LaunchChoice) -> Iterator[str]:
    server, package = choice.server, choice.package
    if server.status != "active":
        yield f"its registry lists it as {shortened(server.status, 40)}"
    if package is None:
        return
    if choice.kind == "mcpb":
        if not _is_for_us(package):
            yield "its file name is for another system than this one"
        return
    tag = image_of(package).rpartition("/")[2].partition(":")[2]
    version = tag if choice.kind == "oci" else package.version
    if version in ("", "latest"):
        yield f"{choice.label} is not pinned to a version, so it may change at any start"
