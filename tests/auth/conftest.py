"""An authorization server and a resource server for all tests, as if just started for each."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.auth.authorization_server import AuthorizationServer, authorization_server
from tests.auth.clients import CLIENTS, DOCUMENTS
from tests.auth.resource_server import ResourceServer, resource_server
from tests.processes import keeping


@pytest.fixture(scope="session")
def _servers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[AuthorizationServer, ResourceServer]]:
    with ExitStack() as stack:
        with keeping():
            issuing = stack.enter_context(authorization_server(clients=CLIENTS, documents=DOCUMENTS))
            folder = tmp_path_factory.mktemp("resource")
            server = stack.enter_context(resource_server(issuing.issuer, folder))
        yield issuing, server


@pytest.fixture
def authority(_servers: tuple[AuthorizationServer, ResourceServer]) -> AuthorizationServer:
    """The authorization server, without counts and faults."""
    _servers[0].reset()
    return _servers[0]


@pytest.fixture
def guarded(_servers: tuple[AuthorizationServer, ResourceServer]) -> ResourceServer:
    """The resource server, without counts."""
    _servers[1].reset()
    return _servers[1]
