"""The names of toolbus that tests use beyond the public ones: one module per part.

A test imports an internal name from here, so that a module can move without touching the tests. Programs that
tests start import what they need themselves: they must not load more than that.
"""
