"""The reference in docs/reference, and docs/api.md: generated from the source of toolbus.

`make docs` and `python -m tests.reference` write the pages; `test_reference.py` compares them.
"""
