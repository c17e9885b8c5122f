"""The page of every adapter whose framework lives here: its programs run, and print what it shows."""

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.environments import living_here
from tests.adapters.speech import playing, scripted
from tests.pages import ROOT, check_page
from tests.test_docs import in_examples


# A framework's warnings are not ours; but nothing may be left open.
@pytest.mark.filterwarnings(
    "default", "error::ResourceWarning", "error::pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("name", living_here())
def test_the_page_is_true(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_examples(tmp_path, monkeypatch)
    clients = kept_clients(monkeypatch)
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    with playing(name, scripted) as provider, asyncio.Runner() as runner:
        # The programs of a page share a loop: a framework keeps its HTTP client for the next one.
        monkeypatch.setattr(asyncio, "run", _running_here(runner))
        for variable, value in provider.environment.items():
            monkeypatch.setenv(variable, value)
        check_page(ROOT / "docs" / "frameworks" / f"{name}.md", runner)
        for client in clients:
            runner.run(client.aclose())
    gc.collect()  # what is left open is to be found here, not in another test


def _running_here(runner: asyncio.Runner) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    here, elsewhere = threading.current_thread(), asyncio.run

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        # The thread of a SyncToolbus has a loop of its own.
        return runner.run(work) if threading.current_thread() is here else elsewhere(work)

    return run


def kept_clients(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every HTTP client that is made from now on: frameworks leave theirs open."""
    clients: list[Any] = []
    for library in ("httpx", "httpx2"):
        if find_spec(library) is not None:
            made: Any = import_module(library).AsyncClient
            monkeypatch.setattr(made, "__init__", _keeping(made.__init__, clients))
    return clients


def _keeping(init: Any, clients: list[Any]) -> Any:
    @wraps(init)
    def kept(self: Any, *args: Any, **options: Any) -> None:
        clients.append(self)
        init(self, *args, **options)

    return kept
