"""No test may fail because the machine is slow."""

from hypothesis import HealthCheck, settings


def test_hypothesis_has_no_limit_of_time() -> None:
    assert settings().deadline is None
    assert settings(max_examples=3).deadline is None  # what a test sets for itself keeps the rest of the profile
    assert HealthCheck.too_slow in settings().suppress_health_check
