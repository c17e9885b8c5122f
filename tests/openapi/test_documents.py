"""Five large documents of public APIs: every operation is a tool that every provider takes, or is refused."""

import json

import pytest

from tests.inside.openapi import Api
from tests.inside.shape import DIALECTS
from tests.interop.servers import require_installed
from tests.openapi.documents import APIS, METHODS, illegal, specs

require_installed("openapi-documents")
SAMPLE = 12


@pytest.fixture(params=APIS, scope="module")
def named(request: pytest.FixtureRequest) -> tuple[str, Api]:
    """An API with its name."""
    return request.param, APIS[request.param].api()


def test_every_operation_is_a_tool_or_is_refused_with_a_reason(named: tuple[str, Api]) -> None:
    name, api = named
    document = json.loads(APIS[name].content())
    described = {
        (method.upper(), path)
        for path, item in document["paths"].items()
        for method in item.keys() & {*METHODS}
    }
    listed = {(one.method, one.path) for one in api.operations}
    refused = {(one.method, one.path): one.reason for one in api.refused}
    assert listed | refused.keys() == described
    assert not listed & refused.keys()
    assert len(listed) > 250
    assert len(refused) < 5
    assert all("another origin; add it to openapi.allow_origins" in reason for reason in refused.values())
    assert len({one.name for one in api.operations}) == len(listed)


def test_every_tool_is_legal_for_every_provider(
    named: tuple[str, Api], request: pytest.FixtureRequest
) -> None:
    tools = specs(*named)
    some = tools if request.config.getoption("--full") else tools[:: max(1, len(tools) // SAMPLE)]
    refused = {
        (spec.name, dialect): found
        for spec in some
        for dialect in DIALECTS
        if (found := illegal(spec, dialect))
    }
    assert refused == {}
