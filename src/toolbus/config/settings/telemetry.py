"""The `telemetry` of a bus: what its OpenTelemetry spans contain, or false for none."""

from toolbus.config.base import ConfigModel
from toolbus.config.location import Location, is_mapping
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

EXPECTED = "expected true, false, or a mapping with content"
_KEYS = frozenset({"content"})


class Telemetry(ConfigModel):
    """What spans contain; nothing is sent unless the program installs an OpenTelemetry SDK."""

    content: bool = False
    """Whether spans have the arguments, results and error messages of calls, without secrets."""


DEFAULT_TELEMETRY = Telemetry()


def read_telemetry(value: JSON | Telemetry, location: Location) -> Telemetry | None:
    """The setting; None for neither spans nor metrics."""
    if value is False or value is None:
        return None
    if value is True:
        return DEFAULT_TELEMETRY
    if isinstance(value, Telemetry):
        return value
    if not is_mapping(value):
        raise location.error(EXPECTED, "telemetry")
    try:
        return Telemetry(**{str(key): inner for key, inner in value.items() if inner is not None})
    except ConfigError as error:
        raise location.relocated(error, lambda key: f"telemetry.{key}" if key else "telemetry") from None


def is_telemetry(value: object) -> bool:
    """Whether the value is our `telemetry`: Gemini CLI uses that key for something else."""
    return isinstance(value, bool | Telemetry) or (is_mapping(value) and value.keys() <= _KEYS)
