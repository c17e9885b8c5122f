"""Import the code of an entry of `hooks`, and tell what kind of station it is.

Files beside the config run from the bytes that were reviewed and locked. They get a package name of their
own, so they replace no module of the program. The folder is not on Python's path, so nothing else in it can
be imported.
"""

import os
import sys
from collections.abc import Mapping
from hashlib import sha256
from importlib import import_module
from importlib.abc import ExecutionLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import decode_source, find_spec
from inspect import isclass, iscoroutinefunction, isfunction, signature
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from toolbus.config.location import near_miss
from toolbus.config.secrets.redact import redacted_by_all
from toolbus.config.settings.stations import StationEntry
from toolbus.config.stations import StationCode
from toolbus.core.text.display import shortened

StationKind: TypeAlias = Literal["observer", "hook", "guard"]
KINDS: tuple[str, ...] = get_args(StationKind)
_NEEDED = "it needs start(operation), or to be async with (call, next) or (operation)"


class ImportedStation(NamedTuple):
    """A station that is ready to use."""

    kind: StationKind
    station: Any
    is_ours: bool
    """Whether it was made for this bus, which then closes it."""


class _ReviewedFiles(MetaPathFinder, ExecutionLoader):
    """Finds the modules of packages whose files were read already; one for the process."""

    def __init__(self) -> None:
        self._modules: dict[str, tuple[str, bytes]] = {}
        self._packages: set[str] = set()

    def add(self, code: StationCode) -> str:
        """The name of a package for these files; the same files always get the same one."""
        marks = "\n".join([str(code.entry.folder), *(f"{name} {code.digests[name]}" for name in code.files)])
        root = f"toolbus_stations_{sha256(marks.encode()).hexdigest()[:16]}"
        if root in self._packages:
            return root
        for (name, content), path in zip(code.files.items(), code.paths, strict=True):
            steps = name.removesuffix(".py").split("/")
            if steps[-1] == "__init__":
                steps.pop()
                self._packages.add(".".join([root, *steps]))
            self._modules[".".join([root, *steps])] = path, content
            for length in range(len(steps)):
                package = ".".join([root, *steps[:length]])
                self._packages.add(package)
                self._modules.setdefault(package, (os.path.join(os.path.dirname(path), "<hooks>"), b""))
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        return root

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The module, if it is one of these files."""
        if fullname not in self._modules:
            return None
        # Without a folder in which Python would look for modules itself: what lies there now may be another.
        spec = ModuleSpec(
            fullname, self, origin=self.get_filename(fullname), is_package=self.is_package(fullname)
        )
        spec.has_location = True
        return spec

    def is_package(self, fullname: str) -> bool:
        return fullname in self._packages

    def get_filename(self, fullname: str) -> str:
        return self._modules[fullname][0]

    def get_source(self, fullname: str) -> str:
        return decode_source(self._modules[fullname][1])


_REVIEWED = _ReviewedFiles()


def imported(code: StationCode, options: Mapping[str, object]) -> ImportedStation:
    """The station that an entry names, made with its options; ConfigError if there is none."""
    entry, found = code.entry, _named(code)
    if _is_station(found):
        if options:
            raise entry.error("is a station itself and takes no options; name a class or a function", "use")
        return ImportedStation(_kind(entry, found), found, is_ours=False)
    if not callable(found):
        raise entry.error(f"is no station: {_NEEDED}", "use")
    try:
        made: object = found(**options)
    except Exception as error:  # the user's code
        raise entry.error(f"cannot be made with these options: {told(error)}", "use") from error
    return ImportedStation(_kind(entry, made), made, is_ours=True)


def _named(code: StationCode) -> Any:
    """Return the object that an entry names."""
    module_name, _, name = code.target.partition(":")
    module = _module(code, module_name)
    found: Any = module
    for step in filter(None, name.split(".")):
        try:
            found = getattr(found, step)
        except AttributeError:
            known = (one for one in vars(module) if not one.startswith("_"))
            problem = f"the module {module_name} has no {step!r}{near_miss(step, known)}"
            raise code.entry.error(problem, "use") from None
    return found


def _module(code: StationCode, name: str) -> ModuleType:
    entry, whole = code.entry, f"{_REVIEWED.add(code)}.{name}" if code.files else name
    if not code.files:
        _check_place(entry, name)
    try:
        return import_module(whole)
    except ModuleNotFoundError as error:
        missing = (error.name or "").removeprefix(whole.removesuffix(name))
        if missing and name != missing and not name.startswith(f"{missing}."):
            step = "; import other files beside the config relatively" if code.files else ""
            problem = f"{name} needs the module {error.name!r}, which is not there{step}"
            raise entry.error(problem, "use") from error
        place = f" beside {entry.file}" if entry.folder else ""
        raise entry.error(f"no module {name!r} is installed or{place or ' importable'}", "use") from None
    except ImportError as error:
        raise entry.error(f"{name} cannot be imported: {told(error)}", "use") from error
    except Exception as error:  # the user's code
        raise entry.error(f"importing {name} failed: {told(error)}", "use") from error


def _check_place(entry: StationEntry, name: str) -> None:
    """ConfigError for a module beside the config that nobody has reviewed, such as compiled code.

    It is found if the folder is on Python's path, as the current one is with `python -m`.
    """
    spec = None if entry.folder is None else find_spec(name.partition(".")[0])
    if spec is None or entry.folder is None:
        return
    places = [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.has_location else [])]
    modules = (place for place in map(str, places) if not place.endswith("__init__.py"))
    tops = {os.path.dirname(os.path.realpath(place)) for place in modules}
    if os.path.realpath(entry.folder) in tops:
        raise entry.error(f"{name} is neither installed nor a Python file beside the config", "use")


def _is_station(found: Any) -> bool:
    """Whether it is a station itself, and not a class or function that makes one."""
    if isclass(found):
        return False
    if iscoroutinefunction(found) or getattr(found, "station", None) in KINDS:
        return True
    is_async = iscoroutinefunction(getattr(found.__class__, "__call__", None))  # noqa: B004 - not whether, but how
    return not isfunction(found) and (is_async or callable(getattr(found, "start", None)))


def _kind(entry: StationEntry, station: Any) -> StationKind:
    """Tell the kind of a station by its attribute, or by its methods; ConfigError if neither is clear."""
    said = getattr(station, "station", None)
    starts, calls = callable(getattr(station, "start", None)), callable(station)
    if said is not None:
        if said not in KINDS:
            raise entry.error(f"its attribute station must be one of {', '.join(KINDS)}", "use")
        if not (starts if said == "observer" else calls):
            needed = {"observer": "start(operation)", "hook": "(call, next)", "guard": "(operation)"}[said]
            raise entry.error(f"says that it is of kind {said}, but cannot be called with {needed}", "use")
        return said
    offered = list[StationKind]()
    is_async = calls and (iscoroutinefunction(station) or iscoroutinefunction(type(station).__call__))
    if starts:
        offered.append("observer")
    if is_async and _takes(station, 2):
        offered.append("hook")
    if is_async and _takes(station, 1):
        offered.append("guard")
    if len(offered) == 1:
        return offered[0]
    kind = type(station).__name__
    if calls and not starts and not is_async:
        raise entry.error(f"a {kind} is no station: its call is not async", "use")
    if offered:
        problem = f"may be {' or '.join(offered)}: set its attribute station to one of them"
        raise entry.error(f"a {kind} {problem}", "use")
    raise entry.error(f"a {kind} is no station: {_NEEDED}", "use")


def _takes(station: Any, count: int) -> bool:
    """Whether it can be called with so many arguments."""
    try:
        signature(station).bind(*range(count))
    except (TypeError, ValueError):
        return False
    return True


def place_of(error: Exception, folder: Path | None) -> str:
    """The file and line of the user's code that raised, in its folder if it has one; empty if unknown."""
    frames = [one for one in extract_tb(error.__traceback__) if Path(one.filename).is_file()][1:]
    own = [one for one in frames if folder is not None and Path(one.filename).is_relative_to(folder)]
    if not frames:
        return ""
    found = (own or frames)[-1]
    shown = Path(found.filename).relative_to(folder) if own and folder is not None else found.filename
    return f"{shown}:{found.lineno}"


def told(error: Exception) -> str:
    """Describe an exception of the user's code in one line, without secrets."""
    text = " ".join(str(redacted_by_all(str(error))).split())
    return shortened(f"{type(error).__name__}: {text}" if text else type(error).__name__, 200)
