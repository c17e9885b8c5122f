"""The `store` of a config: a URL or a mapping, and never its password."""

import pytest

from tests.inside.bus import store_of
from tests.inside.core import StoreError
from toolbus import BusConfig, ConfigError
from toolbus.config import load_config

SERVERS = {"a": {"command": "x"}}
pytestmark = pytest.mark.anyio


def loaded(store: object) -> BusConfig:
    return load_config({"servers": SERVERS, "store": store})


def test_a_url_alone_is_short_for_the_mapping() -> None:
    assert loaded("sqlite:///a.db").store == loaded({"url": "sqlite:///a.db"}).store
    assert load_config({"servers": SERVERS}).store is None


def test_a_url_is_shown_without_what_is_secret_in_it() -> None:
    config = loaded("postgresql://ann:hunter2@db:5432/toolbus?sslpassword=hunter2")
    assert config.store is not None
    assert config.store.shown == "postgresql://db:5432/toolbus"
    assert "hunter2" not in repr(config) + config.model_dump_json()
    referring = loaded("${STORE_URL}")
    assert referring.store is not None
    assert referring.store.shown == "${STORE_URL}"


@pytest.mark.parametrize(
    ("store", "key", "problem"),
    [
        ("redis://hunter2", "store.url", "expected sqlite:///PATH or postgresql://USER@HOST/DATABASE"),
        ({"url": "sqlite:///a", "retention": 0}, "store.retention", "expected a number above 0"),
        ({"url": "sqlite:///a", "address": "here"}, "store.address", "expected HOST:PORT"),
        ({"retention": 3}, "store.url", "is missing"),
        (7, "store", "or a mapping with url"),
    ],
)
def test_a_mistake_is_located_and_not_quoted(store: object, key: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(store)
    assert error.value.key == key
    assert problem in str(error.value)
    assert "hunter2" not in str(error.value)


async def test_a_reference_without_a_value_is_named_when_the_store_is_opened() -> None:
    store = store_of(loaded("postgresql://${NO_SUCH_STORE_PASSWORD}@db/x"))
    assert store is not None
    with pytest.raises((ConfigError, StoreError), match="NO_SUCH_STORE_PASSWORD is not set"):
        await store.open()
    await store.close()
