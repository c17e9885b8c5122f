"""The streams of a command: closed, full, or without a reader, they never make it fail in another way."""

import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO


def prepare_streams() -> None:
    """Replace closed streams, and escape what a stream cannot encode."""
    for name in ("stdout", "stderr"):
        # A closed stream is None, and printing to None would raise the wrong error.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  stays open until exit
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show is escaped instead of raising an error.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard_unwritable(stream: TextIO) -> None:
    """Discard what cannot be written: the disk is full, or the reader is gone."""
    try:
        stream.flush()
    except (OSError, ValueError):
        discard(stream)


def discard(stream: TextIO) -> None:
    """Keep Python from writing to the stream again at exit."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
