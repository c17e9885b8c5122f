"""The sessions of legacy clients."""


class Session:
    """One session."""
