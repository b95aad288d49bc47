"""For every test: a law is judged by its examples, never by how busy the machine is."""

from hypothesis import HealthCheck, settings

# What `CI` in the environment chooses has no deadline either, and is left as it is.
settings.register_profile(
    "tarn", settings(), deadline=None, suppress_health_check=(HealthCheck.too_slow,)
)
if settings.default.deadline is not None:
    settings.load_profile("tarn")
