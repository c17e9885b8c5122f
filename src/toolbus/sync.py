"""The bus without `await`."""

from toolbus.bus.sync import (
    SyncMcpConnection,
    SyncScripts,
    SyncSessionView,
    SyncTask,
    SyncTool,
    SyncToolbus,
    SyncView,
    connect_mcp,
)

__all__ = [
    "SyncMcpConnection",
    "SyncScripts",
    "SyncSessionView",
    "SyncTask",
    "SyncTool",
    "SyncToolbus",
    "SyncView",
    "connect_mcp",
]
