"""The checks of `tarn doctor --probe` on YARN."""

import random
import secrets
import sys
from collections.abc import Callable, Iterator

from tarn.domain import ClusterSpec
from tarn.interfaces import Check, ClientContext, Looked
from tarn_plugins.runtime.yarn import Settings
from tarn_plugins.runtime.yarn.client.deployer import open_door
from tarn_plugins.runtime.yarn.probe import gpu_checks, node_checks, program_checks
from tarn_plugins.runtime.yarn.probe.driver import Outcome, Patience, Round
from tarn_plugins.runtime.yarn.probe.subjects import Subject, subjects

__all__ = ["probes"]
