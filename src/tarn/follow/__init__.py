"""The client of a master: ask it, command it, and follow its streams and its view."""

from tarn.follow.agent import Agent, Bounded, Unserved
from tarn.follow.api import NOBODY_LISTENS, Api, Message
from tarn.follow.everywhere import FleetCall, wait_everywhere
from tarn.follow.tickets import Tickets
from tarn.follow.trust import DISTRUST, Trust
from tarn.follow.views import Following, Master, Source

__all__ = [
    "DISTRUST",
    "NOBODY_LISTENS",
    "Agent",
    "Api",
    "Bounded",
    "FleetCall",
    "Following",
    "Master",
    "Message",
    "Source",
    "Tickets",
    "Trust",
    "Unserved",
    "wait_everywhere",
]
