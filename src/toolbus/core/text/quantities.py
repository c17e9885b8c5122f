"""Durations and sizes as messages show them."""


def in_seconds(seconds: float) -> str:
    """The duration for a message: `5 s`, not `4.99999 s`."""
    return f"{round(seconds, 2) or seconds:g} s"


def over_limit(size: int) -> str:
    """That something exceeds `limits.message`: `is larger than 64 MiB (limits.message)`."""
    shown = f"{size / 2**20:g} MiB" if size >= 2**20 else f"{size:,} bytes"
    return f"is larger than {shown} (limits.message)"
