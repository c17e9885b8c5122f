"""A system-wide config folder of its own for each test. Only root can own one."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import warm
from tests.inside.config import administrator

NOBODY = 65534


@pytest.fixture(scope="session", autouse=True)
def _warm() -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    """Commands are forked from one process, which is there before the first of them."""
    warm.folder()


@dataclass(frozen=True)
class Site:
    """The administrator's folder of a test, and what commands need to find it."""

    base: Path

    @property
    def folder(self) -> Path:
        return self.base / "toolbus"

    @property
    def file(self) -> Path:
        return self.folder / administrator.FILE_NAME

    @property
    def env(self) -> dict[str, str]:
        return {"XDG_CONFIG_DIRS": str(self.base)}

    def write(self, text: str, *, owner: int = 0, mode: int = 0o644) -> Path:
        self.file.write_text(text)
        os.chmod(self.file, mode)
        os.chown(self.file, owner, owner)
        return self.file


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Site:
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("only root can write a file that belongs to root")
    found = Site(tmp_path_factory.mktemp("site"))
    found.folder.mkdir()
    os.chmod(found.folder, 0o755)
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(found.base))
    return found
