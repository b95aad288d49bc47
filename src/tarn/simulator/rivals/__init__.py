"""Policies of others, with their documented defaults, for `tarn simulate` and for nothing else."""

from collections.abc import Mapping
from types import MappingProxyType

from tarn.simulator.rivals.hpa import HPA
from tarn.simulator.rivals.java import JAVA
from tarn.simulator.rivals.knative import KNATIVE
from tarn.simulator.rivals.rival import Rival

__all__ = ["RIVALS", "Rival"]

RIVALS: Mapping[str, Rival] = MappingProxyType({"hpa": HPA, "knative": KNATIVE, "java": JAVA})
"""The names that `--policy` and `--against` know besides those of plugins."""
