"""Four small MCP servers to try toolbus on, each run as `python -m toolbus.demo.NAME`.

`notes` stores notes in SQLite, `files` serves one folder, `worker` works slowly and reports progress, and
`pictures` draws images. All use stdio, or streamable HTTP on localhost with `--http PORT`.
"""
