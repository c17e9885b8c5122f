"""The `telemetry` of a bus: what its OpenTelemetry spans contain, or false for none."""

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator

from toolbus.config.base import ConfigModel
from toolbus.core.values.records import JSON


class Telemetry(ConfigModel):
    """What spans contain; nothing is sent unless the program installs an OpenTelemetry SDK."""

    _expected = "expected true, false, or a mapping with content"

    content: bool = False
    """Whether spans have the arguments, results and error messages of calls, without secrets."""

    @classmethod
    def _from_file(cls, value: JSON) -> dict[str, JSON]:
        return {} if value is True else super()._from_file(value)


DEFAULT_TELEMETRY = Telemetry()
TelemetrySetting: TypeAlias = Annotated[
    Telemetry | None, BeforeValidator(lambda value: None if value is False else value)
]
