"""A result as a server sent it."""

from dataclasses import dataclass

from toolbus.schema.values import JSONObject


@dataclass(frozen=True, slots=True)
class Received:
    """The JSON of a result, and the parts of the record that were read from it."""

    json: JSONObject
    content: object
    structured: object
