"""A client that openapi-python-client makes of the document calls the tools."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.gateway.rest.desk import served_desk
from tests.interop.servers import INTEROP, require_installed
from tests.patience import PATIENCE

require_installed("openapi")
pytestmark = pytest.mark.anyio
PROGRAM = """
import json, sys
from toolbus_client import Client
from toolbus_client.api.desk import add, count, greet
from toolbus_client.models import AddBody, CountBody, CountBranch, CountBranchBranchesItem, GreetBody

with Client(base_url=sys.argv[1]) as client:
    added = add.sync(client=client, body=AddBody(a=1, b=2))
    greeted = greet.sync(client=client, body=GreetBody(name="Ann"))
    inner = CountBranchBranchesItem.from_dict({"name": "b"})
    tree = CountBranch(name="a", branches=[inner])
    counted = count.sync(client=client, body=CountBody(tree=tree))
    wrong = add.sync_detailed(client=client, body=AddBody(a="x", b=2))
results = [added.result, greeted.content[0].text, counted.result]
print(json.dumps([*results, wrong.status_code, wrong.parsed.code]))
"""


async def run(folder: Path, *command: str | Path) -> str:
    """The output of a program, which has to succeed."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(PATIENCE):
            printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, printed.decode()
    return printed.decode()


async def test_a_generated_client_calls_tools(tmp_path: Path) -> None:
    programs = INTEROP / "openapi" / "bin"
    async with served_desk() as desk:
        (tmp_path / "openapi.json").write_bytes((await desk.get("/openapi.json")).content)
        words = ["generate", "--path", "openapi.json", "--meta", "none", "--output-path", "toolbus_client"]
        await run(tmp_path, programs / "openapi-python-client", *words)
        (tmp_path / "program.py").write_text(PROGRAM)
        printed = await run(tmp_path, programs / "python", "program.py", desk.base)
    assert json.loads(printed) == [3, "Hello Ann", 2, 400, "invalid_arguments"]
