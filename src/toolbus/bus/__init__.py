"""The bus: every server of a config, one catalog, one way to call."""
