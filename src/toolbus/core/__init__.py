"""Records that travel through toolbus, and the protocols between its parts; imports only `toolbus.schema`."""

from functools import cache


@cache
def version() -> str:
    """The version that is installed; looked up once, in the folders of all packages."""
    from importlib import metadata  # here, because few commands need it

    return metadata.version("toolbus")
