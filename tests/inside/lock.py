"""Internal names of `toolbus.lock` that tests use."""

from toolbus.lock.approval import offered as offered
from toolbus.lock.approval import snapshot as snapshot
from toolbus.lock.changes import definition_changes as definition_changes
from toolbus.lock.changes import server_differences as server_differences
from toolbus.lock.changes import word_changes as word_changes
from toolbus.lock.deception import suspicions as suspicions
from toolbus.lock.definitions import Kind as Kind
from toolbus.lock.definitions import definition_digest as definition_digest
from toolbus.lock.file import NAME as NAME
from toolbus.lock.file import VERSION as VERSION
from toolbus.lock.file import LockedServer as LockedServer
from toolbus.lock.file import Lockfile as Lockfile
from toolbus.lock.file import Migration as Migration
from toolbus.lock.file import lock_in as lock_in
from toolbus.lock.file import lock_text as lock_text
from toolbus.lock.file import read_lock as read_lock
from toolbus.lock.file import upgraded as upgraded
from toolbus.lock.file import write_lock as write_lock
from toolbus.lock.launch import launch_of as launch_of
from toolbus.lock.launch import launched_package as launched_package
from toolbus.lock.launch import pin_warning as pin_warning
from toolbus.lock.launch import resolved_package as resolved_package
