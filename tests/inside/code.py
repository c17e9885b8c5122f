"""Internal names of `toolbus.code` that tests use."""

from toolbus.code.literals import NotReplaced as NotReplaced
from toolbus.code.literals import with_input as with_input
from toolbus.code.sandbox import ScriptSandbox as ScriptSandbox
from toolbus.code.stubs import Library as Library
from toolbus.code.stubs import argument_names as argument_names
from toolbus.code.stubs import identifier as identifier
from toolbus.code.stubs import identifiers as identifiers
from toolbus.code.stubs import joined as joined
from toolbus.code.stubs import stub as stub
