"""The settings of property tests: the same examples on every run, and no time limit for one of them.

The number of examples depends on --full: see `pytest_configure` in tests/conftest.py.
"""

from hypothesis import HealthCheck, settings

modest = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
