"""The page of every adapter whose framework lives here: its programs run, and print what it shows.

The model is a script: it keeps a note, looks for it, and says what it found.
"""

import asyncio
import gc
from pathlib import Path

import pytest

from tests.adapters.environments import living_here
from tests.adapters.speech import playing
from tests.test_docs import ROOT, check_page, in_examples
from tests.wire import Asked, ToolCall


def scripted(asked: Asked) -> str | list[ToolCall]:
    """What the model does, whatever it is asked."""
    match len(asked.given):
        case 0:
            return [ToolCall("notes_add", {"text": "buy tea"})]
        case 1:
            return [ToolCall("notes_search", {"word": "tea"})]
        case _:
            return f"Found: {asked.given[-1].text}"


@pytest.mark.filterwarnings("default")  # a framework's warnings are not ours
@pytest.mark.parametrize("name", living_here())
def test_the_page_is_true(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_examples(tmp_path, monkeypatch)
    with playing(name, scripted) as provider, asyncio.Runner() as runner:
        # The programs of a page share a loop: a framework keeps its HTTP client for the next one.
        monkeypatch.setattr(asyncio, "run", runner.run)
        for variable, value in provider.environment.items():
            monkeypatch.setenv(variable, value)
        check_page(ROOT / "docs" / "frameworks" / f"{name}.md", runner)
    gc.collect()  # clients that a framework left open are to be found here, not in another test
