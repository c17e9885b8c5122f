"""The contract: everything outsiders rely on, recorded in `recorded/` and compared by `test_contract.py`.

`python -m tests.contract` writes a new recording; `python -m tests.contract NAME ...` writes some parts. The
help of every command is recorded in docs/cli.md, which `tests/cli/test_cli_reference.py` compares.
"""
