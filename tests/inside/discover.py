"""Internal names of `toolbus.discover` that tests use."""

from toolbus.discover import Discovery as Discovery
from toolbus.discover import watch as watch
