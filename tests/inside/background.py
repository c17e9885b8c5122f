"""Internal names of `toolbus.background` that tests use."""

from toolbus.background.protocol import Messages as Messages
from toolbus.background.protocol import send as send
from toolbus.cli.entry import FLAGS as FLAGS
from toolbus.cli.entry import IN_BACKGROUND as IN_BACKGROUND
from toolbus.cli.entry import NOT_THERE as NOT_THERE
from toolbus.cli.entry import WITH_VALUE as WITH_VALUE
from toolbus.cli.entry import background_command as background_command
