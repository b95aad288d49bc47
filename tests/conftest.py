"""For every test: a law is judged by its examples, never by how busy the machine is."""

import os

import pytest
from fewer_examples import WHOLE, scale_examples
from hypothesis import HealthCheck, settings

# What `CI` in the environment chooses has no deadline either, and is left as it is.
settings.register_profile(
    "tarn", settings(), deadline=None, suppress_health_check=(HealthCheck.too_slow,)
)
settings.register_profile("quick", settings.get_profile("tarn"), max_examples=WHOLE // 10)
if settings.default.deadline is not None:
    settings.load_profile("tarn")
if (profile := os.environ.get("TARN_TEST_PROFILE")) is not None:  # noqa: TID251
    settings.load_profile(profile)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run as many examples as the profile says, also where a test names a number."""
    functions = [item for item in items if isinstance(item, pytest.Function)]
    scale_examples(
        (getattr(item.obj, "__func__", item.obj) for item in functions),
        (item.cls for item in functions if item.cls is not None),
    )
