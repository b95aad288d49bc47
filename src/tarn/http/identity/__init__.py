"""Who asks: what a request claims (`claims`), what proves it (`proofs`), who that is (`who`)."""

from tarn.http.identity.authenticator import OWNER, Authenticator
from tarn.http.identity.proofs import (
    AcceptedTicket,
    KnownProxy,
    Proofs,
    TicketChecker,
    connects,
    network,
    trusted,
)

__all__ = [
    "OWNER",
    "AcceptedTicket",
    "Authenticator",
    "KnownProxy",
    "Proofs",
    "TicketChecker",
    "connects",
    "network",
    "trusted",
]
