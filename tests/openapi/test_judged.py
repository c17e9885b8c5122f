"""openapi-core, which nobody here wrote, reads the requests that toolbus makes, and finds the same values."""

import json
import subprocess
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.interop.servers import INTEROP, require_installed
from tests.openapi.api import sender_for
from tests.openapi.cases import BODIES, CASES, STYLES, Case, cases, document

require_installed("openapi-core")
pytestmark = pytest.mark.anyio
JUDGE = Path(__file__).with_name("judge.py")


@contextmanager
def judge(made: list[Case], folder: Path) -> Generator[str]:
    """The URL of a judge for these cases."""
    file = folder / "document.json"
    file.write_text(json.dumps(document(made)))
    python = INTEROP / "openapi-core" / "bin" / "python"
    with subprocess.Popen([python, JUDGE, file], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


async def test_openapi_core_accepts_every_request_and_finds_the_arguments_in_it(tmp_path: Path) -> None:
    made = cases()
    problems: list[str] = []
    with judge(made, tmp_path) as url:
        async with sender_for(url, url) as sender:
            for case in cases(url):
                reply = await sender.send(case.operation, case.arguments)
                found: dict[str, Any] = json.loads(reply.body)
                values = {place: members for place, members in found["values"].items() if members}
                if found["errors"] or (values, found["body"]) != (case.values, case.body):
                    problems.append(f"{case.operation.path} {case.arguments} {case.described}: {found}")
    assert len(made) == CASES >= 200
    assert problems == []


def test_the_cases_have_every_style_and_every_kind_of_body() -> None:
    made = cases()
    bodies = Counter(case.operation.body.content_type for case in made if case.operation.body)
    styles = Counter(
        (one.place, one.style, one.explode, "content" if one.content_type else one.schema["type"])
        for case in made
        for one in case.operation.parameters
    )
    assert set(bodies) == set(BODIES)
    assert {(place, style) for place, style, *_ in styles} == {
        (place, style) for place, listed in STYLES.items() for style in listed
    }
    assert min(bodies.values()) >= 30
