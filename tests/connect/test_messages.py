"""Requests as they are written."""

import json
from typing import Any

import pytest

from tests.inside.connect import encoded_request

PARAMS: list[dict[str, Any]] = [{}, {"name": "x", "arguments": {"text": '"quoted" and zoë'}}]
METAS: list[dict[str, Any]] = [{}, {"version": "1", "info": {"name": "x"}}]


@pytest.mark.parametrize("request_id", [7, "listen-1"])
@pytest.mark.parametrize("params", PARAMS, ids=["no params", "params"])
@pytest.mark.parametrize("meta", METAS, ids=["no meta", "meta"])
@pytest.mark.parametrize("with_progress", [False, True], ids=["silent", "progress"])
def test_a_request_has_its_params_and_their_meta(
    request_id: int | str, params: dict[str, Any], meta: dict[str, Any], with_progress: bool
) -> None:
    sent, constant = json.dumps(params).encode(), json.dumps(meta).encode()
    encoded = encoded_request(request_id, "tools/call", sent, constant, with_progress=with_progress)
    whole = meta | ({"progressToken": request_id} if with_progress else {})
    expected = params | ({"_meta": whole} if whole else {})
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call"}
    assert json.loads(encoded) == message | ({"params": expected} if expected else {})
