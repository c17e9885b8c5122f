"""How properties are tested: the same examples on every run, and no time limit for one of them."""

from hypothesis import HealthCheck, settings

modest = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
