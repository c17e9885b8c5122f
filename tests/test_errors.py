"""Errors travel: between processes, and as copies."""

import copy
import pickle

import pytest

from toolbus import ToolbusError, errors

ERRORS: list[ToolbusError] = [
    errors.ToolNotFound("notes_ad", ["notes_add"], alike=["notes_add"], down=["shop"]),
    errors.ConfigError("unknown key", file="toolbus.yaml", server="shop", key="servers.shop.comand", line=3),
    errors.ConnectFailed("shop", "spawn", "no such file", exit_code=127, stderr=["sh: not found"]),
    errors.ConnectionLost("shop", "tool 'buy'", "the process ended", sent=True, output="killed"),
    errors.CallDenied("tool 'buy'", "the policy denies it", "policy[0]"),
    errors.ToolFailed("buy", "sold out"),
    errors.ExtraMissing("searching by meaning", "search", "numpy is not installed"),
    errors.ServerRejected("shop", "tool 'buy'", -32602, "no such item", data={"item": 4}),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_pickled_or_copied_error_is_the_same(error: ToolbusError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert (str(again), again.public, vars(again)) == (str(error), error.public, vars(error))
