"""The setting `serve.auth.sign_in`: refused values, and effects of valid ones."""

from typing import Any

import pytest

from tests.inside.config import Serve
from tests.inside.gateway import access_of
from toolbus.config import BusConfig
from toolbus.errors import ConfigError

URL = "https://tools.example.com"
OAUTH = {"issuer": "https://id.example.com"}


def serve(**fields: Any) -> Serve:
    whole: Any = {"public_url": URL, "auth": {"sign_in": {}}, **fields}
    return Serve(**whole)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"public_url": None}, "serve.public_url: is missing; auth.sign_in needs the URL"),
        (
            {"public_url": "http://tools.example.com"},
            "public_url: people sign in there, so it must start with",
        ),
        ({"auth": {"sign_in": {}, "oauth": OAUTH}}, "auth.sign_in: is an authorization server of its own"),
        ({"path": "/token"}, "path: /token belongs to the authorization server"),
        ({"path": "/sign-in/mcp"}, "path: /sign-in belongs to the authorization server"),
        ({"path": "/register"}, "path: /register belongs to the authorization server"),
        ({"auth": {"sign_in": {"scopes": {"a b": "default"}}}}, "scopes: a scope contains a space"),
        ({"auth": {"sign_in": {"token_seconds": 0}}}, "token_seconds: expected a number above 0"),
        ({"auth": {"sign_in": {"grant": 1}}}, "unknown key"),
        ({"auth": {"sign_in": {"invites": False}}}, "sign_in.invites: nobody could sign in"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        serve(**{name: value for name, value in fields.items() if value is not None} | fields)
    assert problem.removeprefix("serve.") in str(refused.value)


def test_a_scope_of_an_unknown_view_is_found() -> None:
    made = serve(auth={"sign_in": {"scopes": {"tools": "none"}}}, views={"all": {}}, default_view="all")
    assert [key for key, _ in made.unknown_views(list(made.views))] == ["auth.sign_in.scopes.tools"]


def test_the_issuer_is_the_public_url_and_each_view_has_a_scope() -> None:
    made = serve(public_url=f"{URL}/", views={"a": {}, "b": {}}, default_view="b")
    assert (made.issuer, dict(made.scopes)) == (URL, {"b": "b", "a": "a"})
    assert made.auth.is_needed


def test_a_gateway_on_this_machine_may_do_without_https() -> None:
    assert serve(public_url="http://127.0.0.1:7400").issuer == "http://127.0.0.1:7400"


def test_sign_ins_need_a_file_or_a_store() -> None:
    with pytest.raises(ConfigError, match="sign-ins belong to a config file"):
        access_of(BusConfig(serve=serve()))


def test_a_view_that_no_scope_gives_is_a_warning() -> None:
    scopes = {"scopes": {"tools": "all"}}
    views: dict[str, Any] = {"views": {"all": {}, "lab": {}}, "default_view": "all"}
    [warned] = serve(auth={"sign_in": scopes}, **views).warnings
    assert "gives the view 'lab', so no person can use it" in warned
    assert [*serve(auth={"keys": True, "sign_in": scopes}, **views).warnings] == []
