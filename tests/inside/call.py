"""Internal names of `toolbus.call` that tests use."""

from toolbus.call.arguments import ArgumentCheck as ArgumentCheck
from toolbus.call.arguments import CheckedArguments as CheckedArguments
from toolbus.call.arguments.examples import Examples as Examples
from toolbus.call.path import CallPath as CallPath
from toolbus.call.result_store import CAPACITY as CAPACITY
from toolbus.call.result_store import MAX_CHARACTERS as MAX_CHARACTERS
from toolbus.call.result_store import READ_RESULT as READ_RESULT
from toolbus.call.result_store import ResultStore as ResultStore
from toolbus.call.results import Results as Results
