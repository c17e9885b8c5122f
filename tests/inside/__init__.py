"""What tests use of toolbus beyond its public names: one module per part.

A test imports an internal name from here, so that a module can move without touching the tests. Programs that
tests start import what they need themselves: they must not load more than that.
"""
