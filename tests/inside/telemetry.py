"""Internal names of `toolbus.telemetry` that tests use."""

from toolbus.telemetry.observer import BusTelemetry as BusTelemetry
from toolbus.telemetry.providers import Providers as Providers
from toolbus.telemetry.serving import RequestArrival as RequestArrival
from toolbus.telemetry.serving import ServerTelemetry as ServerTelemetry
