"""The bus without `await`."""

from toolbus.bus.sync import SyncScripts, SyncSessionView, SyncTask, SyncTool, SyncToolbus, SyncView

__all__ = ["SyncScripts", "SyncSessionView", "SyncTask", "SyncTool", "SyncToolbus", "SyncView"]
