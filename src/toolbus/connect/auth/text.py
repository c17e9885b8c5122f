"""Text of a server in our messages."""

MAX_LENGTH = 300


def shown(value: object) -> str:
    """A text of a server for a message: one line, printable, not too long."""
    text = "".join(
        character if character.isprintable() else " " for character in str(value)[: MAX_LENGTH + 1]
    )
    if len(text) > MAX_LENGTH:
        text = text.rpartition(" ")[0]  # the last word is cut: as a part of a secret, it would not be hidden
    return " ".join(text.split()) or "no reason given"
