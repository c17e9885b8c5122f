"""Whether the program has installed OpenTelemetry providers, and the tracer and the instruments of them."""

import os
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Self

from toolbus.core import version
from toolbus.telemetry import names

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, Meter
    from opentelemetry.trace import Tracer

_modules = sys.modules
_VARIABLES = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER")
"""With one of these, the API loads a provider the first time it is asked for one."""


def load_named_providers() -> None:
    """Load the providers that the environment names, if it does."""
    if any(os.environ.get(name) for name in _VARIABLES):
        from opentelemetry.metrics import get_meter_provider
        from opentelemetry.trace import get_tracer_provider

        get_tracer_provider()
        get_meter_provider()


def is_installed() -> bool:
    """Whether there is a provider of spans or metrics. Every call asks, so it must cost next to nothing.

    Asking the API takes several times longer, because it looks into the environment each time. If its
    private names are gone, the answer is yes: then spans are made that record nothing.
    """
    traces = _modules.get("opentelemetry.trace")
    if traces is not None and getattr(traces, "_TRACER_PROVIDER", traces) is not None:
        return True
    # If nobody has imported it, nobody has installed a provider.
    metrics = _modules.get("opentelemetry.metrics._internal")
    return metrics is not None and getattr(metrics, "_METER_PROVIDER", metrics) is not None


class NoSpan:
    """Stands for a request that nobody traces, or that another span covers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        return None

    def answered(self, result: object) -> None:
        """Record nothing."""


UNTRACED = NoSpan()


class Providers:
    """Our tracer and our instruments; to be used only if something is installed."""

    @cached_property
    def tracer(self) -> "Tracer":
        """The tracer; a provider that is installed later is used from then on."""
        from opentelemetry.trace import get_tracer

        return get_tracer(names.SCOPE, version())

    @cached_property
    def _meter(self) -> "Meter":
        from opentelemetry.metrics import get_meter

        return get_meter(names.SCOPE, version())

    @cached_property
    def client_operations(self) -> "Histogram":
        return self._histogram(names.CLIENT_OPERATION, "The duration of an operation, until its response.")

    @cached_property
    def client_sessions(self) -> "Histogram":
        return self._histogram(names.CLIENT_SESSION, "The duration of a connection to a server.")

    @cached_property
    def server_operations(self) -> "Histogram":
        return self._histogram(names.SERVER_OPERATION, "The duration of a request, until its response.")

    @cached_property
    def server_sessions(self) -> "Histogram":
        return self._histogram(names.SERVER_SESSION, "The duration of a client's session.")

    @cached_property
    def restarts(self) -> "Counter":
        description = "Reconnections to a server."
        return self._meter.create_counter(names.RESTARTS, "{restart}", description)

    def _histogram(self, name: str, description: str) -> "Histogram":
        return self._meter.create_histogram(
            name, "s", description, explicit_bucket_boundaries_advisory=names.BUCKETS
        )
