"""The `store` of a bus: the database that several gateways share, and how long it keeps what nobody uses."""

import re
from typing import Annotated

from pydantic import Field, field_serializer

from toolbus.config.base import ConfigModel
from toolbus.config.location import Location, is_mapping
from toolbus.config.secrets.reference import MASK, Reference, parsed
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON
from toolbus.state.store.database import EXPECTED, parse_store_url

_SCHEMES = ("sqlite:///", "postgresql://", "postgres://")
_KEYS = frozenset({"url", "retention", "address", "notice"})


class StoreSetting(ConfigModel):
    """The database that the replicas of a gateway share."""

    url: Annotated[str, Field(repr=False, min_length=1)]
    """`sqlite:///PATH`, or `postgresql://USER:PASSWORD@HOST/DATABASE`; it may contain references."""
    retention: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Days for which logins and remembered answers are kept that nobody renews; by default forever."""

    address: str | None = None
    """Where the other replicas reach this one, as `HOST:PORT`; by default the host of `serve.http`."""
    notice: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 5
    """Seconds that a balancer has to learn from `/readyz` that this replica will stop."""

    @property
    def shown(self) -> str:
        """The URL without what is secret in it."""
        return self._masked(self.url)

    @field_serializer("url")
    def _masked(self, text: str) -> str:
        """A reference as written; a URL without what is secret in it."""
        if re.fullmatch(r"\$\{[^}]*\}", text) and ":-" not in text:
            return text
        return MASK if "${" in text else parse_store_url(text).place

    @property
    def seconds(self) -> float | None:
        """The retention in seconds."""
        return None if self.retention is None else self.retention * 86_400

    def _check(self) -> None:
        if self.address is not None and not re.fullmatch(
            r"(\[[0-9A-Fa-f:]+\]|[^:\s]+):\d{1,5}", self.address
        ):
            raise Location().error("expected HOST:PORT, such as 10.0.0.5:7401", "address")
        parts = parsed(self.url, key="url")
        if any(isinstance(part, Reference) for part in parts):
            return  # only known when it is looked up
        try:
            parse_store_url(self.url)
        except ValueError as error:
            raise Location().error(str(error), "url") from None


def read_store(value: JSON, location: Location) -> StoreSetting:
    """The setting; ConfigError if it is invalid."""
    if isinstance(value, StoreSetting):
        return value
    if isinstance(value, str):
        value = {"url": value}
    if not is_mapping(value):
        raise location.error(f"{EXPECTED}, or a mapping with url and retention", "store")
    try:
        return StoreSetting(**{str(key): inner for key, inner in value.items() if inner is not None})
    except ConfigError as error:
        raise location.relocated(error, lambda key: f"store.{key}" if key else "store") from None


def is_store(value: object) -> bool:
    """Whether the value is our `store`: other hosts may use that key for something else."""
    if isinstance(value, str):
        return value.startswith((*_SCHEMES, "${"))
    return isinstance(value, StoreSetting) or (is_mapping(value) and "url" in value and value.keys() <= _KEYS)
