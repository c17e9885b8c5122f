"""The files and environment variables that a sandbox shows. Nothing else exists inside."""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from toolbus.config import Resolved, ServerConfig
from toolbus.core.values.errors import ConnectFailed

Access: TypeAlias = Literal["read", "write"]

_SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/run/current-system",
)
# Not all of /etc/ssl and /etc/pki, which also have private keys.
_ETC = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "timezone"),
    *("ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "ca-certificates", "ca-certificates.conf"),
    *("pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "pki/ca-trust", "crypto-policies"),
    *("nsswitch.conf", "hosts", "host.conf", "gai.conf", "protocols", "services", "os-release"),
    *("mime.types", "terminfo", "fonts", "static"),
)
_ETC_NETWORK = ("resolv.conf",)
_EMPTY = ("/tmp", "/var/tmp", "/run")
"""Folders that are empty at first, writable, and gone with the server."""
_OWN_ETC = Path(__file__).parent / "etc"
USER_HOME = "/home/user"
"""The home of the user in our /etc/passwd."""


class OutsideSandbox(Exception):
    """A path cannot be shown in a sandbox."""


@dataclass(frozen=True, slots=True)
class _Bind:
    source: str
    target: str
    access: Access

    def words(self) -> tuple[str, ...]:
        return ("--bind" if self.access == "write" else "--ro-bind", self.source, self.target)


@dataclass(slots=True)
class SandboxFiles:
    """The paths that a sandbox shows: the system's, the program's and the config's."""

    home: str
    net: bool
    _own: dict[str, _Bind] = field(default_factory=dict[str, _Bind])
    _changeable: list[str] = field(default_factory=list[str])

    def grant(self, paths: Sequence[str], access: Access) -> None:
        """Show what the config names; `OutsideSandbox` says why a path cannot be shown."""
        absolute = [os.path.abspath(path) for path in paths]
        if access == "write":
            self._changeable += [*absolute, *map(os.path.realpath, absolute)]
        for path in absolute:
            real = os.path.realpath(path)
            if real == os.sep or is_below(real, ("/proc", "/dev")) or is_below(path, ("/proc", "/dev")):
                raise OutsideSandbox(f"{path!r} cannot be part of a sandbox; name the folders it needs")
            if not os.path.exists(real):
                raise OutsideSandbox(f"{path!r} does not exist")
            self._bind(path, real, access)

    def check_links(self, paths: Iterable[str]) -> None:
        """`OutsideSandbox` if a path leads elsewhere through a link that the server could have made."""
        for path in map(os.path.abspath, paths):
            for folder in self._changeable:
                is_inside = path != folder and is_below(path, (folder,))
                if is_inside and not is_below(os.path.realpath(path), (os.path.realpath(folder),)):
                    raise OutsideSandbox(f"{path!r} leads out of {folder!r}, where the server can make links")

    def show(self, paths: Iterable[str]) -> None:
        """Show what the program itself consists of: never the home folder, or one that contains it."""
        for path in paths:
            real = os.path.realpath(path)
            is_system = is_below(os.path.abspath(path), _SYSTEM) and is_below(real, _SYSTEM)
            if not (self.can_change(path) or self.is_too_wide(real) or is_system):
                self._bind(path, real, "read")

    def is_too_wide(self, path: str) -> bool:
        """Whether the path is the home folder, or contains it."""
        homes = (self.home, os.path.realpath(self.home))
        return any(is_below(home, (path,)) for home in homes)

    def can_change(self, path: str) -> bool:
        """Whether the server can change the content of the path, so that nothing may be concluded from it."""
        return is_below(os.path.abspath(path), self._changeable)

    def shows(self, path: str) -> bool:
        """Whether the sandbox shows the same content at the path as the system outside."""
        here = (os.path.abspath(path), os.path.realpath(path))
        return any(is_below(one, self._own) or is_below(one, _SYSTEM) for one in here)

    def has_folder(self, path: str) -> bool:
        """Whether there is a folder of this path inside, even if it is an empty one."""
        return self.shows(path) or any(is_below(bind.target, (path,)) for bind in self._own.values())

    def arguments(self) -> list[str]:
        """The arguments for bubblewrap: each folder comes before its content."""
        words = [word for folder in _EMPTY for word in ("--tmpfs", folder)]
        words += [*_system_arguments(self.net), "--tmpfs", self.home]
        for bind in sorted(self._own.values(), key=lambda bind: (_depth(bind.target), bind.target)):
            # The other name of a path is a link, if the folder that contains it is shown.
            is_link = bind.source != bind.target and any(
                is_below(bind.target, (one,)) for one in self._own if one != bind.target
            )
            words += () if is_link else bind.words()
        if not self.has_folder(USER_HOME) and not is_below(self.home, (USER_HOME,)):
            words += ["--symlink", self.home, USER_HOME]
        # As root, the kernel's own settings could be written: it does not ask for a capability there.
        return [*words, "--remount-ro", "/proc", "--remount-ro", "/"]

    def _bind(self, path: str, real: str, access: Access) -> None:
        for target in (real, os.path.abspath(path)):
            known = self._own.get(target)
            if known is None or known.access == "read":
                self._own[target] = _Bind(real, target, access)


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether the path is one of these folders, or in one of them."""
    return any(path == folder or path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)


def _system_arguments(net: bool) -> Iterator[str]:
    for folder in _SYSTEM:
        if os.path.islink(folder) and is_below(os.path.realpath(folder), _SYSTEM):
            yield from ("--symlink", os.readlink(folder), folder)
        elif os.path.isdir(folder):
            yield from ("--ro-bind", folder, folder)
    for name in (*_ETC, *(_ETC_NETWORK if net else ())):
        if os.path.exists(path := f"/etc/{name}"):
            yield from ("--ro-bind", path, path)
    for name in ("passwd", "group"):
        yield from ("--ro-bind", str(_OWN_ETC / name), f"/etc/{name}")
    yield from ("--proc", "/proc", "--dev", "/dev")


def _depth(path: str) -> int:
    return path.rstrip(os.sep).count(os.sep)


_KEPT = re.compile(r"PATH|LANG|LANGUAGE|LC_\w+|TZ")
# Read by the loader, the C library or a shell: bubblewrap itself must not see them, or they would be run
# outside of the sandbox.
_LOADED = re.compile(
    r"LD_.*|GLIBC_.*|MALLOC_.*|GCONV_PATH|LOCPATH|NLSPATH|BASH.*|SHELLOPTS|PS4|ENV|IFS|(?![A-Za-z_]\w*$).*",
    re.ASCII | re.DOTALL,
)


def home_folder() -> str:
    """The home inside: it has the same path as outside, so that `~/notes` means the same, and is empty."""
    home = os.path.expanduser("~")
    return os.path.normpath(home) if os.path.isabs(home) and os.path.normpath(home) != os.sep else USER_HOME


def inside_environment(config: ServerConfig, values: Resolved) -> dict[str, str]:
    """The environment inside; `inherit_env: all` passes only variables that are named."""
    assert config.sandbox is not None
    inherited = config.inherit_env
    named = {*config.sandbox.env, *(() if isinstance(inherited, str) else inherited)}
    base = {
        name: value
        for name, value in os.environ.items()
        # An exported shell function would be run by the server's shell.
        if not value.startswith("()") and (name in named or (inherited != "none" and _KEPT.fullmatch(name)))
    }
    return {"HOME": home_folder(), "USER": "user", "LOGNAME": "user"} | base | dict(values.env)


def divided(env: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The variables that bubblewrap forwards, and arguments that set the variables it must not see.

    The first are not arguments: every user of the machine can read arguments, and variables may be secrets.
    """
    passed = {name: value for name, value in env.items() if not _LOADED.fullmatch(name)}
    withheld = [name for name in env if name not in passed]
    return passed, [word for name in withheld for word in ("--setenv", name, env[name])]


_CA_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")


def granted_files(config: ServerConfig, values: Resolved) -> SandboxFiles:
    """The files that the config names; raises `ConnectFailed` if one cannot be shown."""
    assert config.sandbox is not None
    files = SandboxFiles(home=home_folder(), net=config.sandbox.net)
    try:
        grants: list[tuple[Access, tuple[str, ...]]] = [("write", values.writable), ("read", values.readable)]
        for access, paths in grants:
            try:
                files.grant(paths, access)
                files.check_links(paths)
            except OutsideSandbox as error:
                cause = f"sandbox.{access}: {values.redacted(str(error))}"
                raise ConnectFailed(config.alias, "spawn", cause, hint="check the path") from None
    except OSError as error:
        cause = f"its sandbox cannot be made: {error.strerror or type(error).__name__}"
        raise ConnectFailed(config.alias, "spawn", cause) from None
    return files


def argument_paths(values: Resolved, args: tuple[str, ...]) -> list[str]:
    """The arguments that are paths, from the working directory; also the value of `--option=PATH`."""
    found: list[str] = []
    for word in args:
        text = word.partition("=")[2] if word.startswith("-") else word
        if text and "\0" not in text and "://" not in text:
            found.append(os.path.abspath(os.path.join(working_folder(values), os.path.expanduser(text))))
    return found


def named_files(values: Resolved, args: tuple[str, ...], env: dict[str, str]) -> list[str]:
    """The files, not the folders, that the command line names, and the certificates of the environment.

    Arguments that contain the name of a user are skipped: such a name could be the name of any file beside
    the config.
    """
    fixed = tuple(word for word in args if word not in values.personal_args)
    found = [path for path in argument_paths(values, fixed) if is_file(path)]
    certificates = (env[name] for name in _CA_VARIABLES if name in env)
    return [*found, *(path for path in certificates if os.path.isabs(path) and os.path.exists(path))]


def is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def working_folder(values: Resolved) -> str:
    """The working directory outside."""
    try:
        return os.path.abspath(values.cwd or "")
    except OSError:  # the current folder was deleted
        return os.sep
