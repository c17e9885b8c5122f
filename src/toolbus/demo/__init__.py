"""Four small MCP servers to try toolbus on, each run as `python -m toolbus.demo.NAME`.

`notes` keeps notes in SQLite, `files` shows one folder, `worker` takes its time and says how far it is,
`pictures` draws. All speak stdio, or streamable HTTP on loopback with `--http PORT`.
"""
