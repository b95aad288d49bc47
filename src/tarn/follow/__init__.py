"""The client of a master: queries, commands, streams, and the agent that follows its view."""

from tarn.follow.agent import Agent, CapacityLimited, UnservedRequests
from tarn.follow.answers import DISTRUST, NOBODY_LISTENS, Message
from tarn.follow.api import MasterApi
from tarn.follow.everywhere import FleetCall, wait_everywhere
from tarn.follow.request_signer import KerberosTickets
from tarn.follow.views import Master, MasterSource, ViewFollower
from tarn.tls.contexts import Trust

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
