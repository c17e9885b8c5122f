"""The rules of this machine's administrator: `policy.yaml` in the system-wide config folder.

A file is used only if nobody but root can have written it. Nothing in a project, in code or in the
environment overrides it. If several files are found, a server needs permission from all of them. A file that
cannot be used stops every start.
"""

import os
import shlex
import stat
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Strict

from toolbus.config.base import ConfigModel, Texts
from toolbus.config.hosts.read import document_in
from toolbus.config.launch.patterns import (
    ResolvedLaunch,
    argv_allowed,
    argv_denied,
    argv_problem,
    hook_allowed,
    hook_denied,
    hook_problem,
    is_launcher,
    local_word,
    package_allowed,
    package_denied,
    package_problem,
    path_allowed,
    path_problem,
    url_allowed,
    url_denied,
    url_problem,
)
from toolbus.config.location import Location, is_list, is_mapping, near_miss
from toolbus.config.settings.sandbox import Sandbox
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

FILE_NAME = "policy.yaml"
ASK = "ask the administrator of this machine"
Requirement: TypeAlias = Literal["lock", "sandbox", "audit"]
_REQUIREMENTS = ("lock", "sandbox", "audit")
_FIXED = {"darwin": ("/Library/Application Support/toolbus",)}.get(sys.platform, ("/etc/xdg/toolbus",))
"""Folders that are always searched, regardless of the environment."""
_WRITABLE = 0o022
_LARGEST = 1 << 20


def _words(line: JSON) -> JSON:
    try:
        return shlex.split(line) if isinstance(line, str) else line
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {error}") from None


def _checked(problem_with: Callable[[Any], str | None]) -> AfterValidator:
    def check(pattern: Any) -> Any:
        if problem := problem_with(pattern):
            raise ValueError(problem)
        return pattern

    return AfterValidator(check)


_Line = Annotated[Texts, BeforeValidator(_words), _checked(argv_problem)]
_Lines = Annotated[tuple[_Line, ...], Strict(False)]
_Urls = Annotated[tuple[Annotated[str, _checked(url_problem)], ...], Strict(False)]
_Packages = Annotated[tuple[Annotated[str, _checked(package_problem)], ...], Strict(False)]
_Paths = Annotated[tuple[Annotated[str, _checked(path_problem)], ...], Strict(False)]
_Hooks = Annotated[tuple[Annotated[str, _checked(hook_problem)], ...], Strict(False)]
_Requirements = Annotated[tuple[Requirement, ...], Strict(False)]


class LaunchList(ConfigModel):
    """Patterns for command lines, URLs, packages, folders and hooks; None is a list that is not given."""

    _keeps_null = True

    argv: _Lines | None = None
    urls: _Urls | None = None
    packages: _Packages | None = None
    cwd: _Paths | None = None
    hooks: _Hooks | None = None

    @classmethod
    def _from_file(cls, value: JSON) -> dict[str, JSON]:
        fields = super()._from_file(value)
        for name, patterns in fields.items():
            if name in cls.model_fields and not is_list(patterns):
                raise Location().error("expected a list of patterns", name)
        return fields


class SandboxLimits(ConfigModel):
    """The most that the sandbox of a server may open; None does not limit it."""

    _keeps_null = True

    net: bool = True
    read: _Paths | None = None
    write: _Paths | None = None

    def excess(self, sandbox: Sandbox, launch: ResolvedLaunch) -> tuple[str, str] | None:
        """The limit that a sandbox exceeds, and how."""
        if sandbox.net and not self.net:
            return "net", "its sandbox has the network; remove net: true"
        # What may be changed may be read, too.
        readable = None if self.read is None else (*self.read, *(self.write or ()))
        opened = (("write", self.write, launch.writes), ("read", readable, launch.reads))
        for key, patterns, paths in opened:
            for path in paths if patterns is not None else ():
                if not any(path_allowed(pattern, path) for pattern in patterns or ()):
                    return key, f"its sandbox may not {key} {path!r}; remove it"
        return None


_UNLIMITED = SandboxLimits()


class AdministratorPolicy(ConfigModel):
    """The content of one file."""

    _keeps_null = True

    allow: LaunchList = LaunchList()
    deny: LaunchList = LaunchList()
    require: _Requirements = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile:
    """A file that counts."""

    path: str
    policy: AdministratorPolicy
    sandbox: SandboxLimits = _UNLIMITED

    def refusal(self, launch: ResolvedLaunch) -> tuple[str, str] | None:
        """The list that forbids it and why, as the end of a sentence about it; None if it is permitted."""
        allow, deny = self.policy.allow, self.policy.deny
        if launch.url is not None:
            for pattern in deny.urls or ():
                if url_denied(pattern, launch.url):
                    return "deny.urls", f"is denied by {pattern!r}"
            if allow.urls is not None and not any(url_allowed(one, launch.url) for one in allow.urls):
                return "allow.urls", "is not listed"
        if launch.command is not None:
            return self._program_refusal(launch)
        return None

    def hook_refusal(self, names: Sequence[str], paths: Sequence[str]) -> tuple[str, str] | None:
        """The list that forbids a hook of a config and why; None if it is permitted.

        It runs in this process, so it must be listed as soon as programs must be, or need a sandbox.
        """
        allow, deny = self.policy.allow, self.policy.deny
        for pattern in deny.hooks or ():
            if hook_denied(pattern, names, paths):
                return "deny.hooks", f"is denied by {pattern!r}"
        limits = (allow.hooks, allow.argv, allow.packages)
        if limits == (None, None, None) and "sandbox" not in self.policy.require:
            return None
        if any(hook_allowed(pattern, names, paths) for pattern in allow.hooks or ()):
            return None
        return "allow.hooks", "is not listed"

    def _program_refusal(self, launch: ResolvedLaunch) -> tuple[str, str] | None:
        allow, deny = self.policy.allow, self.policy.deny
        for line in deny.argv or ():
            if argv_denied(line, launch):
                return "deny.argv", f"is denied by {' '.join(line)!r}"
        for pattern in deny.packages or ():
            if package_denied(pattern, launch):
                return "deny.packages", f"is denied by {pattern!r}"
        if refused := self._place_refusal(launch):
            return refused
        if allow.argv is not None and not any(argv_allowed(line, launch) for line in allow.argv):
            return "allow.argv", "is not listed"
        if allow.packages is None or (allow.argv is not None and not is_launcher(launch.command or "")):
            return None
        # Without a list of command lines, nothing vouches for a program at some path.
        is_known = allow.argv is not None or "/" not in (launch.command or "")
        if is_known and any(package_allowed(pattern, launch) for pattern in allow.packages):
            return None
        return "allow.packages", "is not listed, or it is not certain which package it runs"

    def _place_refusal(self, launch: ResolvedLaunch) -> tuple[str, str] | None:
        """The environment or working folder that makes a listed command line run something else."""
        allow, deny, folder = self.policy.allow, self.policy.deny, launch.works_in
        for pattern in deny.cwd or ():
            if folder is not None and path_allowed(pattern, folder):
                return "deny.cwd", f"runs in {folder!r}, which is denied by {pattern!r}"
        given = [key for key in ("argv", "packages") if getattr(allow, key) is not None]
        if given and (name := launch.hijacking):
            reason = f"is not matched, because its env sets {name}, which decides what runs"
            return f"allow.{given[0]}", reason
        if folder is None or any(path_allowed(pattern, folder) for pattern in allow.cwd or ()):
            return None
        if launch.is_moved and (given or allow.cwd is not None):
            return "allow.cwd", f"is not matched, because its cwd {folder!r} is not listed"
        lines = [line for line in allow.argv or () if argv_allowed(line, launch)]
        words = [local_word(line, launch) for line in lines]
        if words and None not in words:
            reason = f"is not matched, because {words[0]!r} is in {folder!r}, which is not listed"
            return "allow.cwd", reason
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredFile:
    """A file that does not count, because others than root may have written it."""

    path: str
    reason: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Administrator:
    """The administrator's permissions and requirements."""

    files: tuple[PolicyFile, ...] = ()
    ignored: tuple[IgnoredFile, ...] = ()

    def refusal(self, launch: ResolvedLaunch, shown: str, server: str | None) -> ConfigError | None:
        """The error if a server must not be started or reached; `shown` is its launch line or URL."""
        for file in self.files:
            if found := file.refusal(launch):
                key, reason = found
                return ConfigError(f"{shown!r} {reason}; {ASK}", file=file.path, server=server, key=key)
        return None

    def hook_refusal(self, names: Sequence[str], paths: Sequence[str]) -> ConfigError | None:
        """The refusal of a hook with these names and files; None if it is permitted."""
        for file in self.files:
            if found := file.hook_refusal(names, paths):
                key, reason = found
                return ConfigError(f"the hook {names[0]!r} {reason}; {ASK}", file=file.path, key=key)
        return None

    def requiring(self, what: Requirement) -> str | None:
        """The first file that requires it."""
        return next((file.path for file in self.files if what in file.policy.require), None)


def policy_folders() -> list[Path]:
    """The system-wide config folders: the fixed one, and the folders that the environment names."""
    if sys.platform == "win32":
        from platformdirs import site_config_dir

        return [Path(site_config_dir("toolbus", appauthor=False))]
    # As platformdirs finds them, whose import takes longer than all of this.
    bases = os.environ.get("XDG_CONFIG_DIRS", "").split(os.pathsep)
    named = (os.path.join(base, "toolbus") for base in bases if os.path.isabs(base))
    return [Path(folder) for folder in dict.fromkeys([*_FIXED, *named])]


def read_administrator(
    folders: Iterable[Path] | None = None, *, knows_owners: bool | None = None
) -> Administrator:
    """Read the files in these folders, by default the system-wide ones; ConfigError if one cannot be used.

    `knows_owners` tells whether this system has owners that we can check.
    """
    if knows_owners is None:
        knows_owners = os.name == "posix"
    if folders is None:
        folders = policy_folders()
    found = [_read(folder / FILE_NAME, knows_owners=knows_owners) for folder in folders]
    return Administrator(
        files=tuple(one for one in found if isinstance(one, PolicyFile)),
        ignored=tuple(one for one in found if isinstance(one, IgnoredFile)),
    )


def _read(path: Path, *, knows_owners: bool) -> PolicyFile | IgnoredFile | None:
    try:
        os.lstat(path)  # PermissionError: there may be one
        if not knows_owners:
            problem = "its owner cannot be checked on this system, so nothing is started; remove it"
            raise ConfigError(f"{problem}, or {ASK}", file=str(path))
        for part in (path.parent, path):
            if problem := _not_roots(part, part.stat()):
                if part.is_symlink():
                    raise _unusable(path, f"is a link out of root's hands: {problem.reason}")
                return problem
        _check_links(path)
        return _policy_file(_content(path), path)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink() or path.parent.is_symlink():
            raise _unusable(path, "is a link to nothing") from None
        return None
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror or error}") from None


def _not_roots(path: Path, found: os.stat_result) -> IgnoredFile | None:
    """The reason why users other than root may have written a file, or may write in a folder."""
    if found.st_uid != 0:
        fix = shlex.join(["sudo", "chown", "root", str(path)])
        return IgnoredFile(path=str(path), reason=f"it belongs to user {found.st_uid}, not to root", fix=fix)
    if found.st_mode & _WRITABLE:
        fix = shlex.join(["sudo", "chmod", "go-w", str(path)])
        return IgnoredFile(path=str(path), reason="others than root can write it", fix=fix)
    return None


def _check_links(path: Path) -> None:
    """ConfigError if links lead through a folder where users other than root could replace the next part."""
    real = path.resolve(strict=True)
    if real == path:
        return
    for folder in real.parents:
        found = folder.stat()
        is_sticky = found.st_uid == 0 and found.st_mode & stat.S_ISVTX
        if not is_sticky and (problem := _not_roots(folder, found)):
            raise _unusable(path, f"is a link out of root's hands: {folder}: {problem.reason}")


def _content(path: Path) -> bytes:
    # Without waiting: opening a FIFO would block.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise _unusable(path, "is not a file")
        if problem := _not_roots(path, found):  # replaced in the meantime
            raise _unusable(path, problem.reason)
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise _unusable(path, f"has more than {_LARGEST:,} bytes")
    return content


def _policy_file(content: bytes, path: Path) -> PolicyFile:
    expected = "allow, deny or require"
    try:
        document = document_in(content, path, empty=f"write {expected}", top=expected)
        values: dict[str, JSON] = {str(key): value for key, value in document.items()}
        required, limits = values.get("require"), _UNLIMITED
        if is_mapping(required):
            values["require"], limits = _requirements(required)
        return PolicyFile(path=str(path), policy=AdministratorPolicy(**values), sandbox=limits)
    except ConfigError as error:
        found = error.mistakes[0]
        raise _unusable(path, found.problem, found.key) from None


def _requirements(given: Mapping[JSON, JSON]) -> tuple[list[str], SandboxLimits]:
    """The requirements in a mapping, and its limits for sandboxes."""
    limits = _UNLIMITED
    for name, value in given.items():
        key = f"require.{name}"
        if name not in _REQUIREMENTS:
            raise Location().error(f"unknown key{near_miss(name, _REQUIREMENTS)}", key)
        if name == "sandbox" and is_mapping(value):
            try:
                limits = SandboxLimits(**{str(inner): one for inner, one in value.items()})
            except ConfigError as error:
                raise Location().relocated(error, lambda inner: f"require.sandbox.{inner}") from None
        elif not isinstance(value, bool):
            also = ", or a mapping with net, read and write" if name == "sandbox" else ""
            raise Location().error(f"expected true or false{also}", key)
    return [str(name) for name, value in given.items() if value is not False], limits


def _unusable(path: Path, problem: str, key: str | None = None) -> ConfigError:
    return Location(file=str(path)).error(f"{problem}; nothing is started until it is fixed; {ASK}", key)
