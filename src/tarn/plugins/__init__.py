"""Load plugins, choose what they offer by name, and announce to them.

Built-in providers come through the same entry points (group ``tarn``) as a stranger's.
"""

from tarn.plugins.kinds import COMING, KINDS, Provider
from tarn.plugins.loading import load
from tarn.plugins.registry import Plugins

__all__ = ["COMING", "KINDS", "Plugins", "Provider", "load"]
