"""The server that treats every user differently, over HTTP."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import web_server
from tests.processes import keeping


@pytest.fixture(scope="session")
def personal_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with ExitStack() as stack:
        with keeping():
            folder = tmp_path_factory.mktemp("personal")
            port = stack.enter_context(web_server("http", folder, script="personal.py"))
        yield port


@pytest.fixture(params=["modern", "legacy"])
def era(request: pytest.FixtureRequest) -> str:
    return request.param
