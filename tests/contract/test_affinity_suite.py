"""Affinities keep the promises of `Affinity`."""

from contract.fake_suites import FakeAffinitySuite

from tarn.testing.contracts import AffinityContract
from tarn_plugins.affinity import keys, none

KEYS = keys.tarn_affinities()


class TestFake(FakeAffinitySuite):
    """Has one rule for all sequences."""


class TestAuto(AffinityContract):
    """Keeps sequences."""

    factory = KEYS["auto"]


class TestAutoWithCaches(AffinityContract):
    """Also sends equal requests to the same cache."""

    factory = KEYS["auto"]
    settings = {"response_cache": True}


class TestSequence(AffinityContract):
    """Keeps sequences, also of listed models."""

    factory = KEYS["sequence"]


class TestHeader(AffinityContract):
    """Keeps sequences, then sessions."""

    factory = KEYS["header"]


class TestJson(AffinityContract):
    """Keeps sequences, then beginnings of prompts."""

    factory = KEYS["json"]
    settings = {"path": "text_input"}


class TestNone(AffinityContract):
    """Keeps nothing, and means it."""

    factory = none.tarn_affinities()["none"]
    keeps_sequences = False
