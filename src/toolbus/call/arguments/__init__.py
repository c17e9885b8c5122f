"""Check the arguments of a call: repair harmless mistakes, and describe the rest to the model.

check        the check of one tool's arguments
repairer     the repairs, each one validated
conversions  other values that a value of the wrong type may stand for
problem      a description of what could not be repaired, with an example (examples)
"""

from toolbus.call.arguments.check import ArgumentCheck, ArgumentStation, CheckedArguments

__all__ = ["ArgumentCheck", "ArgumentStation", "CheckedArguments"]
