"""The client of a master: ask it, command it, and follow its streams and its view."""

from tarn.follow.agent import Agent, CapacityLimited, UnservedRequests
from tarn.follow.api import NOBODY_LISTENS, MasterApi, Message
from tarn.follow.everywhere import FleetCall, wait_everywhere
from tarn.follow.tickets import KerberosTickets
from tarn.follow.trust import DISTRUST, Trust
from tarn.follow.views import Master, MasterSource, ViewFollower

__all__ = [
    "DISTRUST",
    "NOBODY_LISTENS",
    "Agent",
    "CapacityLimited",
    "FleetCall",
    "KerberosTickets",
    "Master",
    "MasterApi",
    "MasterSource",
    "Message",
    "Trust",
    "UnservedRequests",
    "ViewFollower",
    "wait_everywhere",
]
