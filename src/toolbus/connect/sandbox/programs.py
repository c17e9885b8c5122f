"""The programs of a sandbox: what `npx` and `uvx` install and run, and the files that a program consists of.

The two steps of a launcher are separated. The installation has network access and its own folder, but no file
or secret of the server. The program runs from that folder, which it cannot change, and without the launcher.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from toolbus.core.files import read_plain
from toolbus.schema.values import entries_of

Registry: TypeAlias = Literal["npm", "pypi"]

_WORDS: Mapping[tuple[str, ...], Registry] = {
    ("npx",): "npm",
    ("npm", "exec"): "npm",
    ("npm", "x"): "npm",
    ("uvx",): "pypi",
    ("uv", "tool", "run"): "pypi",
}
_PACKAGE: Mapping[Registry, tuple[str, ...]] = {"npm": ("-p", "--package"), "pypi": ("--from",)}
"""The options that name the package, instead of the first word."""
_TAKE_VALUE: Mapping[Registry, frozenset[str]] = {
    "npm": frozenset(["-p", "--package", "--loglevel", "--registry", "--tag", "--userconfig"]),
    "pypi": frozenset(
        [
            *("--from", "-w", "--with", "-p", "--python", "--index", "--default-index", "-i", "--index-url"),
            *("--extra-index-url", "--index-strategy", "--keyring-provider", "-P", "--upgrade-package"),
            *("--resolution", "--prerelease", "--fork-strategy", "--exclude-newer", "--link-mode"),
            *("-C", "--config-setting", "--no-build-package", "--no-binary-package", "--color"),
            *("--allow-insecure-host", "--python-platform", "--torch-backend", "--reinstall-package"),
        ]
    ),
}
# Read or run something else than a package of the registry.
_REFUSED: Mapping[Registry, frozenset[str]] = {
    "npm": frozenset(["-c", "--call", "--prefix", "--cache", "-w", "--workspace", "--workspaces"]),
    "pypi": frozenset(
        [
            *("--with-editable", "--with-requirements", "--env-file", "--constraints", "-c", "--overrides"),
            *("--build-constraints", "-b", "--find-links", "-f", "--cache-dir", "--directory", "--project"),
            *("--config-file", "--offline", "-n", "--no-cache"),
        ]
    ),
}
_NAME = re.compile(r"(@[\w.-]+/)?(?P<name>[\w.-]+)")
_LARGEST_MANIFEST = 4 << 20
_PREFIX = "import sys; print(sys.prefix)"


class NotLaunchable(Exception):
    """The arguments of a launcher are not supported in a sandbox, or its package has no such program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPackage:
    """A package that a launcher installs, and the program to run from it."""

    registry: Registry
    options: tuple[str, ...]
    """The options of the launcher, with the package."""
    spec: str
    """The package as written, for people."""
    program: str | None
    """The name of the program; None for the one that npm chooses."""
    args: tuple[str, ...]
    """The arguments of the program."""
    is_versioned: bool

    def install(self, launcher: str) -> list[str]:
        """The command that installs it, and runs only the package's installation scripts."""
        words = {"npm": ["exec"], "uv": ["tool", "run"]}.get(Path(launcher).stem, [])
        if self.registry == "npm":
            return [launcher, *words, "--yes", *self.options, "--", "node", "-e", "0"]
        return [launcher, *words, *self.options, "python", "-c", _PREFIX]

    def environment(self, cache: Path) -> dict[str, str]:
        if self.registry == "npm":
            quiet = dict.fromkeys(("audit", "fund", "update_notifier"), "false")
            return {
                "npm_config_cache": str(cache / "npm"),
                **{f"npm_config_{name}": value for name, value in quiet.items()},
            }
        return {
            "UV_CACHE_DIR": str(cache / "uv"),
            "UV_TOOL_DIR": str(cache / "tools"),
            "UV_PYTHON_INSTALL_DIR": str(cache / "python"),
            "UV_NO_PROGRESS": "1",
            "UV_COMPILE_BYTECODE": "1",  # the server cannot write it, and would compile at every start
        }

    def installed(self, cache: Path, printed: str) -> str:
        """The path of the program, after `install` printed this; raises `NotLaunchable`."""
        prefix = printed.strip().rpartition("\n")[2]
        folder = _npm_folder(cache) if self.registry == "npm" else Path(prefix, "bin")
        program = self.program or _chosen_by_npm(folder.parent)
        # The package itself names both.
        is_inside = folder.is_relative_to(cache) and os.sep not in program
        if not is_inside or not (folder / program).exists():
            raise NotLaunchable(f"the package {self.spec!r} has no program {program!r}")
        return str(folder / program)


def package_of(command: str, args: Sequence[str]) -> InstalledPackage | None:
    """The package that the command runs; None if it is not a launcher. Raises `NotLaunchable`."""
    words = (Path(command).stem, *args)
    for launcher, registry in _WORDS.items():
        if words[: len(launcher)] == launcher:
            return _parsed(words[len(launcher) :], registry)
    return None


def local_program(package: InstalledPackage, folder: str) -> str | None:
    """The program that npx would take from the packages of the folder, instead of the registry."""
    name = _NAME.fullmatch(package.spec)
    if package.registry != "npm" or package.is_versioned or name is None:
        return None
    for place in (Path(folder), *Path(folder).parents):
        found = place / "node_modules" / ".bin" / (package.program or name["name"])
        if found.exists() and (
            package.program is not None or (place / "node_modules" / package.spec).is_dir()
        ):
            return str(found)
    return None


def _parsed(words: Sequence[str], registry: Registry) -> InstalledPackage:
    options: list[str] = []
    named: list[str] = []
    waiting = iter(words)
    first: str | None = None
    for word in waiting:
        if word == "--" or not word.startswith("-"):
            first = next(waiting, None) if word == "--" else word
            break
        option, has_value, value = word.partition("=")
        if option in _REFUSED[registry]:
            raise NotLaunchable(f"its option {option} is not supported there")
        if not has_value and option in _TAKE_VALUE[registry]:
            value = next(waiting, "")
            options += [word, value]
        else:
            options.append(word)
        if option in _PACKAGE[registry]:
            named.append(value)
    rest = tuple(waiting)
    if first is None:
        raise NotLaunchable("it names no package")
    if named:
        return _package(registry, options, " ".join(named), first, rest)
    if re.match(r"[./~]|file:", first):
        raise NotLaunchable(f"{first!r} is not a package of a registry")
    if registry == "npm":
        return _package(registry, [*options, f"--package={first}"], first, None, rest)
    name, _, version = first.partition("@") if "://" not in first else (first, "", "")
    spec = first if not version else name if version == "latest" else f"{name}=={version}"
    program = re.split(r"[\[=<>~!@ ]", first)[0]
    return _package(registry, [*options, "--from", spec], first, program, rest)


def _package(
    registry: Registry, options: Sequence[str], spec: str, program: str | None, args: tuple[str, ...]
) -> InstalledPackage:
    if any(re.match(r"[./~]|file:", part) for part in spec.split()):
        raise NotLaunchable(f"{spec!r} is not a package of a registry")
    return InstalledPackage(
        registry=registry,
        options=tuple(options),
        spec=spec,
        program=program,
        args=args,
        is_versioned=_NAME.fullmatch(spec) is None,
    )


def _npm_folder(cache: Path) -> Path:
    """The programs of the only installation in the cache."""
    for folder in (cache / "npm" / "_npx").glob("*/node_modules/.bin"):
        return folder
    raise NotLaunchable("npm installed no program")


def _chosen_by_npm(modules: Path) -> str:
    """The program that `npx PACKAGE` runs: the only one, or the one with the name of the package."""
    wanted = entries_of(_read_json(modules.parent / "package.json").get("dependencies"))
    name = next(iter(wanted), "")
    manifest = _read_json(modules / name / "package.json")
    bare = name.rpartition("/")[2]
    programs = manifest.get("bin")
    if isinstance(programs, str):
        return bare
    found = entries_of(programs)
    if len(set(map(str, found.values()))) == 1:
        return str(next(iter(found)))
    if bare in found:
        return bare
    raise NotLaunchable(f"the package {name!r} has {len(found)} programs; name one: npx -p {name} PROGRAM")


def _read_json(path: Path) -> Mapping[str, object]:
    try:
        return entries_of(json.loads(read_plain(path, _LARGEST_MANIFEST)))
    except (OSError, ValueError, RecursionError):
        raise NotLaunchable(f"{os.path.basename(path.parent)!r} was not installed completely") from None


_MOST = 16
"""The maximum number of files that make up a program: links, interpreters."""
_LINE = 1024
_HOME = re.compile(r"^home\s*=\s*(.+?)\s*$", re.MULTILINE)
_NODE_MODULES = "node_modules"


def runtime_paths(program: str, search: str, can_change: Callable[[str], bool]) -> list[str]:
    """The paths without which the program cannot run; `search` is the PATH of its interpreter.

    Nothing is concluded from what the server `can_change`: it could name any file as its interpreter.
    """
    found: dict[str, None] = {}
    waiting, seen = [os.path.abspath(program)], set[str]()
    while waiting and len(seen) < _MOST:
        path = waiting.pop()
        # The content of a script is not trusted: it could name any folder, secret or FIFO.
        if path in seen or can_change(path) or not (os.path.isfile(path) and os.access(path, os.X_OK)):
            continue
        seen.add(path)
        found |= dict.fromkeys([path, *_around(path)])
        waiting += _next_programs(path, search)
        for folder in [one for one in found if os.path.isfile(os.path.join(one, "pyvenv.cfg"))]:
            if (base := _base_of(folder)) is not None and not can_change(base):
                found |= dict.fromkeys(_around(base))
    return list(found)


def _next_programs(path: str, search: str) -> Iterator[str]:
    """The target of a link, or the interpreter of a script."""
    if os.path.islink(path):
        yield os.path.normpath(os.path.join(os.path.realpath(os.path.dirname(path)), os.readlink(path)))
        return
    try:
        with open(path, "rb") as file:
            line = file.readline(_LINE)
    except OSError:
        return
    words = line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        if names and (interpreter := shutil.which(names[0], path=search)):
            yield os.path.abspath(interpreter)
    elif words:
        yield words[0]


def _around(path: str) -> Iterator[str]:
    """The environment that a program is installed in, if it is one."""
    head, mark, _ = path.partition(f"{os.sep}{_NODE_MODULES}{os.sep}")
    if mark:
        yield os.path.join(head, _NODE_MODULES)
    folder = Path(path).parent
    prefix = folder.parent
    if folder.name == "shims" and (prefix / "versions").is_dir():  # pyenv: the shim finds the version
        yield str(prefix)
    if folder.name not in ("bin", "sbin"):
        return
    if (prefix / "pyvenv.cfg").is_file() or _is_prefix(prefix):
        yield str(prefix)
        # In case the prefix itself is too wide to be shown, such as the home folder.
        yield from map(str, prefix.glob("lib/python3*"))
    if (prefix / "lib" / _NODE_MODULES).is_dir():
        yield str(prefix / "lib" / _NODE_MODULES)


def _is_prefix(prefix: Path) -> bool:
    """Whether Python or Node is installed there; not any folder that has a `bin`, such as ~/.local."""
    has_python = any(prefix.glob("lib/python3*/os.py")) and any(prefix.glob("bin/python3*"))
    return has_python or ((prefix / "bin" / "node").is_file() and (prefix / "lib" / _NODE_MODULES).is_dir())


def _base_of(venv: str) -> str | None:
    """The interpreter that a virtual environment was made from."""
    try:
        home = _HOME.search((Path(venv) / "pyvenv.cfg").read_text(errors="replace"))
    except OSError:
        return None
    if home is None or not _is_prefix(Path(home[1]).parent):
        return None
    return os.path.join(home[1], "python3")
