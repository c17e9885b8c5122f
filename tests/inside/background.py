"""Internal names of `toolbus.background` that tests use."""

from toolbus.background.command_line import COMMANDS as COMMANDS
from toolbus.background.command_line import FLAGS as FLAGS
from toolbus.background.command_line import NOT_THERE as NOT_THERE
from toolbus.background.command_line import WITH_VALUE as WITH_VALUE
from toolbus.background.command_line import bus_command as bus_command
from toolbus.background.protocol import Messages as Messages
from toolbus.background.protocol import send as send
