"""Internal names of `toolbus.extension` that tests use."""

from toolbus.extension.manifest import bridge_config as bridge_config
