"""`serve.auth.sign_in.oidc`: the provider that says who people are."""

from typing import Any

import pytest

from tests.config.test_config_serve import SERVERS, read
from tests.inside.config import setting
from tests.inside.core import ConfigError
from toolbus.config import load_config

OIDC = {"issuer": "https://id.example.com", "client_id": "bus", "groups": {"views": {"staff": "default"}}}


def serve_with(**changes: Any) -> dict[str, Any]:
    """A gateway with this provider."""
    return {"public_url": "https://tools.example.com", "auth": {"sign_in": {"oidc": {**OIDC, **changes}}}}


def test_a_group_has_one_view_or_several() -> None:
    views = {"staff": "reading", "lab": ["reading", "everything"]}
    serve: dict[str, Any] = {
        **serve_with(groups={"views": views}),
        "views": {"reading": {}, "everything": {}},
    }
    found = read({**serve, "default_view": "reading"}).auth.sign_in
    assert found is not None
    assert found.oidc is not None
    assert found.oidc.groups.views == {"staff": ("reading",), "lab": ("reading", "everything")}
    assert (found.oidc.user, found.oidc.groups.claim, found.oidc.scopes) == ("sub", "groups", ())


@pytest.mark.parametrize(
    ("changes", "mistake"),
    [
        ({"issuer": "id"}, "issuer: expected the URL of an OpenID Connect provider, such as"),
        ({"issuer": "https://id.example.com?x=1"}, "issuer: expected the URL of an OpenID"),
        ({"client_id": ""}, "client_id: expected a non-empty string"),
        ({"groups": {}}, "groups.views: is missing"),
        ({"groups": {"views": {}}}, "groups.views: expected a mapping of groups"),
        ({"groups": {"views": ["staff"]}}, "groups.views: expected a mapping of groups to views"),
        ({"groups": {"views": {"staff": "defalt"}}}, "groups.views.staff: no view is named 'defalt'; did"),
        ({"client_secret": "${"}, "client_secret: "),
    ],
)
def test_a_mistake_is_named(changes: dict[str, Any], mistake: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config({**SERVERS, "serve": serve_with(**changes)})
    assert str(raised.value).startswith(f"serve.auth.sign_in.oidc.{mistake}")


def test_somebody_can_sign_in() -> None:
    serve = {"public_url": "https://tools.example.com", "auth": {"sign_in": {"invites": False}}}
    with pytest.raises(ConfigError, match=r"auth\.sign_in\.invites: nobody could sign in"):
        load_config({**SERVERS, "serve": serve})


def test_its_secret_is_not_shown() -> None:
    found = read(serve_with(client_secret="hunter2"))
    assert "hunter2" not in repr(found)
    assert "hunter2" not in str(found.model_dump())
    assert "${OIDC}" in str(setting("serve", serve_with(client_secret="${OIDC}")).model_dump())
