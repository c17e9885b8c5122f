"""The authorization scenarios of the official conformance suite.

The suite authenticates a client by its secret only at servers that have no clients without one.
"""

import asyncio
import json
import re
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from pathlib import Path

import pytest

from tests.conformance.suite import PROGRAM
from tests.gateway.serving import free_port
from tests.gateway.sign_in.signing_in import ANN, OAuthClient, SignIns, parameters, signing_in
from tests.inside.gateway import REQUEST, SignInState, grant_files
from tests.interop.servers import require_installed
from tests.patience import PATIENCE

require_installed("conformance")
pytestmark = pytest.mark.anyio

LINK = re.compile(r"^(http\S+/authorize\?\S+)$", re.MULTILINE)


async def examined(gateway: SignIns, client: OAuthClient, port: int, results: Path) -> str:
    """The output of the suite, after a person agreed in their browser."""
    words = ["authorization", "--url", gateway.base, "--client-id", client.id, "--port", str(port)]
    words += ["--resource", f"{gateway.base}/mcp", "--output-dir", str(results)]
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, *words, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
    )
    assert process.stdout is not None
    printed = ""
    try:
        async with asyncio.timeout(PATIENCE):
            while line := (await process.stdout.readline()).decode():
                printed += line
                if "Callback server started" in line and (found := LINK.search(printed)):
                    await agree(gateway, found[1])
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return printed


async def agree(gateway: SignIns, link: str) -> None:
    """Open the link as a person who agrees, and go where they are sent."""
    to_pages = await gateway.http.get(link)
    waiting = gateway.server.waiting(parameters(to_pages.headers["location"])[REQUEST])
    assert waiting is not None
    assert (
        await gateway.http.get(await gateway.server.approve(waiting, ANN, waiting.views))
    ).status_code == 200


async def test_the_authorization_server_passes_every_scenario(tmp_path: Path) -> None:
    port = free_port()
    async with signing_in(SignInState(grant_files(tmp_path / "toolbus.yaml"))) as gateway:
        client = await gateway.registered(redirect_uris=[f"http://127.0.0.1:{port}/callback"])
        printed = await examined(gateway, client, port, tmp_path / "results")

    found = {
        check["id"]: check["status"]
        for file in (tmp_path / "results").rglob("checks.json")
        for check in json.loads(file.read_text())
    }
    assert found == {
        "authorization-server-metadata": "SUCCESS",
        "authorization-server-metadata-cimd": "SUCCESS",
        "authorization-code-grant": "SUCCESS",
    }, printed
