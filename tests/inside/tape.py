"""Internal names of `toolbus.tape` that tests use."""

from toolbus.tape.format import Entry as Entry
from toolbus.tape.format import RecordedList as RecordedList
from toolbus.tape.format import RecordedCall as RecordedCall
from toolbus.tape.format import Tape as Tape
from toolbus.tape.format import TapeFile as TapeFile
from toolbus.tape.format import RecordedUpdate as RecordedUpdate
from toolbus.tape.matching import Matching as Matching
from toolbus.tape.matching import differences as differences
from toolbus.tape.player import TapePlayer as TapePlayer
from toolbus.tape.privacy import Places as Places
from toolbus.tape.privacy import Privacy as Privacy
from toolbus.tape.recorder import Recorder as Recorder
from toolbus.tape.verify import TapeVerifier as TapeVerifier
from toolbus.tape.verify import Verification as Verification
