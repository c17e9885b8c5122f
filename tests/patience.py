"""How long tests wait for something to happen."""

PATIENCE = 300.0
"""Only what hangs takes longer, also on a busy machine: no test fails because something was slow."""
