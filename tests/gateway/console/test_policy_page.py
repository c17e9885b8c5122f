"""The page of the policy: rules in order with their decisions, rules without effect, and calls to try."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.gateway.console.opening import Markup, Opened, console_over, plain
from tests.gateway.driving import JSON
from tests.gateway.front import Gates, gated
from tests.inside.config import PolicyRule, Serve, ServeView
from toolbus import CallDenied

pytestmark = pytest.mark.anyio

PICTURE = "<img src=x onerror=alert(1)>"
ADD: JSON = {"a": 1, "b": 2}
RULES: list[JSON] = [
    {"tools": "gated/large", "do": "deny", "reason": f"too much {PICTURE}"},
    {"tools": "gated/add", "arguments": {"properties": {"a": {"const": 7}}}, "do": "ask"},
    {"tools": "gated/ad", "do": "deny"},
    {"tools": "gated/*", "do": "allow"},
    {"tools": "gated/add", "do": "deny"},
]


def _config(rules: Sequence[JSON] = RULES, **more: object) -> JSON:
    return {"servers": {"gated": {"server": gated(Gates())}}, "policy": [*rules], **more}


def _rows(page: str) -> list[str]:
    return [plain(row.split("</tr>")[0]) for row in page.split("<tr>")[1:] if "<td" in row]


async def _try(opened: Opened, **fields: str) -> str:
    page = await opened.page(f"policy?{urlencode(fields)}")
    return plain(page.partition('id="policy-try"')[2].partition(">")[2])


async def test_rules_are_shown_in_order_with_their_decisions() -> None:
    async with console_over(_config()) as opened:
        await opened.enter()
        before = _rows(await opened.page("policy"))
        for _ in range(3):
            await opened.bus.call("gated_add", ADD)
        with pytest.raises(CallDenied):
            await opened.bus.call("gated_large", {"size": 1})
        page = await opened.page("policy")
        after = _rows(page)
    assert [row.split()[:2] for row in before[:5]] == [
        [f"policy[{number}]", do] for number, do in enumerate(("deny", "ask", "deny", "allow", "deny"))
    ]
    assert all("unused" in row for row in before[:5])
    assert "tools gated/large: too much <img" in after[0]
    assert ["unused" in row for row in after[:5]] == [False, True, True, False, True]
    assert " 3 2" in after[3]
    assert "matches no tool; did you mean 'gated/add'?" in after[2]
    assert "no effect is never reached" in after[4]
    assert after[5].startswith("no rule allow every other call 0")
    assert "img" not in {tag for tag, _ in Markup(page).elements}


async def test_a_call_is_tried_without_being_made_counted_or_recorded(tmp_path: Path) -> None:
    trail = tmp_path / "audit.jsonl"
    async with console_over(_config(audit=str(trail))) as opened:
        await opened.enter()
        denied = await _try(opened, name="gated_large", arguments='{"size": 1}')
        asked = await _try(opened, name="gated/add", arguments='{"a": 7, "b": 1}')
        allowed = await _try(opened, name="gated_add", arguments='{"a": 8, "b": 1}')
        unknown = await _try(opened, name="gated_add")
        resource = await _try(opened, kind="resource", name="gated/file:///etc/passwd")
        after = _rows(await opened.page("policy"))
    assert denied.startswith("gated/large denied policy[0] decides: too much <img")
    assert asked.startswith("gated/add asks a person policy[1] decides.")
    assert allowed.startswith("gated/add allowed policy[3] decides.")
    assert "its arguments do not match at /a (const)" in allowed
    assert unknown.startswith("gated/add depends on the arguments")
    assert resource.startswith("gated/file:///etc/passwd allowed No rule matches")
    assert all("unused" in row for row in after[:5])
    assert not trail.exists()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": "gated_ad"}, "gated_ad"),
        ({"name": "gated_add", "arguments": "{"}, "the arguments are not JSON (line 1, column 2)"),
        ({"name": "gated_add", "arguments": "[1]"}, "the arguments must be a JSON object"),
        ({"kind": "resource", "name": "x"}, "x"),
        ({"kind": "request", "name": "gated/nothing"}, "a server asks for elicitation, sampling, roots"),
        ({"kind": "request", "name": "gated/roots"}, "gated/roots allowed"),
        ({"kind": "nonsense", "name": "gated_wait"}, "gated/wait allowed"),
    ],
)
async def test_what_cannot_be_tried_is_explained(fields: dict[str, str], problem: str) -> None:
    async with console_over(_config()) as opened:
        await opened.enter()
        assert problem in await _try(opened, **fields)


async def test_a_view_decides_in_addition() -> None:
    rules = (PolicyRule.model_validate({"tools": "gated/add", "do": "deny", "reason": "not for guests"}),)
    serve = Serve(views={"default": ServeView(), "guests": ServeView(policy=rules)})
    async with console_over(_config([])) as opened:
        await opened.enter()
        assert "There is no policy: every call is allowed." in plain(await opened.page("policy"))
        config = opened.bus.config.model_copy(update={"serve": serve})
        await opened.bus.reload(config)
        page = plain(await opened.page("policy"))
        assert "guests view.policy[0] deny tools gated/add: not for guests" in page
        assert (await _try(opened, name="gated_add")).startswith("gated/add allowed")
        denied = await _try(opened, name="gated_add", view="guests", arguments="{}")
        assert denied.startswith("gated/add denied view.policy[0] decides: not for guests")


async def test_counts_begin_again_when_the_rules_are_others() -> None:
    async with console_over(_config()) as opened:
        await opened.bus.call("gated_add", ADD)
        counts = opened.console.rules.counts
        assert counts.of("policy[3]").allowed == 1
        await opened.bus.reload(opened.bus.config)
        assert counts.of("policy[3]").allowed == 1
        fewer = opened.bus.config.model_copy(update={"policy": opened.bus.config.policy[:4]})
        await opened.bus.reload(fewer)
        assert counts.of("policy[3]").allowed == 0
        await opened.bus.call("gated_add", ADD)
        assert opened.console.rules.counts.of("policy[3]").allowed == 1
