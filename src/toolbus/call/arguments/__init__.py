"""Arguments on the way in: harmless slips repaired and told, the rest put into words for the model.

proof     says "valid" for common schemas in about a microsecond, or nothing (with scalars)
judge     jsonschema, which decides
guide     a schema read as advice: what is expected at a place
document  a schema as a whole
values    the JSON types
readings  what else a value of the wrong type may have been meant as
mending   the repairs, each one judged
complaint what could not be repaired, with words (wording) and an example (examples)
"""

from toolbus.call.arguments.check import ArgumentCheck, Checked

__all__ = ["ArgumentCheck", "Checked"]
