"""A bus with the ledger, and what a test needs of it."""

from pathlib import Path
from typing import Any

from tests import warm

LEDGER = Path(__file__).with_name("ledger.py")


def config(folder: Path, **settings: Any) -> dict[str, Any]:
    """A config with the ledger, which writes to `ledger.txt`."""
    server = {"command": warm.python(), "args": [str(LEDGER), str(folder / "ledger.txt")]}
    return {"servers": {"ledger": server}, **settings}


def written(folder: Path) -> list[str]:
    """The lines of the ledger."""
    path = folder / "ledger.txt"
    return path.read_text().splitlines() if path.exists() else []
