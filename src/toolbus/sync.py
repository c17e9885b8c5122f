"""The bus without `await`; `toolbus` has `SyncToolbus`, too."""

from toolbus.bus.sync import SyncScripts, SyncSessionView, SyncTask, SyncTool, SyncToolbus, SyncView

__all__ = ["SyncScripts", "SyncSessionView", "SyncTask", "SyncTool", "SyncToolbus", "SyncView"]
