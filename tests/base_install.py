"""An environment as `pip install toolbus` makes it, without extras, from packages installed here."""

import sys
import sysconfig
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]


def base_python(folder: Path) -> str:
    """Make the environment in a new folder; returns its Python."""
    venv.create(folder, symlinks=True, with_pip=False)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    for one in needed("toolbus"):
        installed = Path(str(one.locate_file("")))
        parts = {file.parts for file in one.files or () if file.parts[0] != ".." and file.suffix != ".pth"}
        for link in _links(installed, parts, 1):
            (packages / link).parent.mkdir(parents=True, exist_ok=True)
            (packages / link).symlink_to(installed / link)
    (packages / "toolbus").symlink_to(ROOT / "src" / "toolbus")
    return str(folder / "bin" / Path(sys.executable).name)


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


def _links(installed: Path, files: set[tuple[str, ...]], depth: int) -> Iterator[Path]:
    """The links for these files: packages; for a shared namespace package, only its parts."""
    for head in {file[:depth] for file in files}:
        folder = installed.joinpath(*head)
        if folder.is_dir() and folder.name.isidentifier() and not (folder / "__init__.py").exists():
            yield from _links(installed, {file for file in files if file[:depth] == head}, depth + 1)
        else:
            yield Path(*head)
