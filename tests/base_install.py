"""An environment as `pip install toolbus` makes it, without extras, from packages installed here."""

import shutil
import sys
import sysconfig
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]


def base_python(folder: Path) -> str:
    """Make the environment in a new folder; returns its Python."""
    venv.create(folder, symlinks=True, with_pip=False)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    for one in needed("toolbus"):
        for file in one.files or ():
            if file.parts[0] != ".." and file.suffix != ".pth":
                _put(Path(str(one.locate_file(file))), packages.joinpath(*file.parts))
    (packages / "toolbus").symlink_to(ROOT / "src" / "toolbus")
    return str(folder / "bin" / Path(sys.executable).name)


def _put(installed: Path, place: Path) -> None:
    """A file as a hard link, which a server in a sandbox can read; a copy on another file system."""
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        place.hardlink_to(installed)
    except OSError:
        shutil.copy2(installed, place)


def needed(name: str) -> list[Distribution]:
    """A distribution and all that it needs, as installed here."""
    found: dict[tuple[str, frozenset[str]], Distribution] = {}
    todo = [(name, frozenset[str]())]
    while todo:
        if (one := todo.pop()) in found:
            continue
        found[one] = distribution(one[0])
        for requirement in map(Requirement, found[one].requires or ()):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in one[1] | {""}):
                todo.append((requirement.name, frozenset(requirement.extras)))
    return list({one.metadata["Name"]: one for one in found.values()}.values())
