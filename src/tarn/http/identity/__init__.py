"""Who asks: what a request claims (`claims`), what proves it (`proofs`), who that is (`who`)."""

from tarn.http.identity.proofs import (
    Accepted,
    Proofs,
    TicketChecker,
    Trusted,
    connects,
    network,
    trusted,
)
from tarn.http.identity.who import OWNER, Authenticator

__all__ = [
    "OWNER",
    "Accepted",
    "Authenticator",
    "Proofs",
    "TicketChecker",
    "Trusted",
    "connects",
    "network",
    "trusted",
]
