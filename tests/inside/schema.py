"""Internal names of `toolbus.schema` that tests use."""

from toolbus.schema.describe import expected as expected
from toolbus.schema.describe import type_words as type_words
from toolbus.schema.node import Schema as Schema
from toolbus.schema.reader import LEAST_STEPS as LEAST_STEPS
from toolbus.schema.reader import PLACES as PLACES
from toolbus.schema.reader import RECURSION as RECURSION
from toolbus.schema.reader import STEPS_PER_VALUE as STEPS_PER_VALUE
from toolbus.schema.reader import size_of as size_of
from toolbus.schema.validator import InvalidSchema as InvalidSchema
from toolbus.schema.validator import Validator as Validator
from toolbus.schema.values import is_object as is_object
