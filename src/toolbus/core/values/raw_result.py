"""A result as a server sent it."""

from typing import NamedTuple

from toolbus.schema.values import JSONObject


class RawResult(NamedTuple):
    """The JSON of a result, and the parts of the record that were read from it."""

    json: JSONObject
    content: object
    structured: object
