"""Policies in discrete time: the very code of the master, over a world that is modelled.

`simulate` lets an entrant (a policy, its options and its guard) meet a trace of arrivals, and
returns a `Run`: what the load, the size, the queue and the cost were in each step. Only the
runtime, the clock and Triton are modelled (`tarn.simulator.world`, `tarn.simulator.queueing`).
"""

from tarn.simulator.entrant import Entrant, enter
from tarn.simulator.families import FAMILIES, generated
from tarn.simulator.model import WorldModel
from tarn.simulator.replay import simulate
from tarn.simulator.rivals import RIVALS
from tarn.simulator.run import Run, Summary
from tarn.simulator.trace import Trace

__all__ = [
    "FAMILIES",
    "RIVALS",
    "Entrant",
    "Run",
    "Summary",
    "Trace",
    "WorldModel",
    "enter",
    "generated",
    "simulate",
]
