"""Who asks: what a request claims (`claims`), what proves it (`proofs`), who that is (`who`)."""

from tarn.http.identity.authenticator import OWNER, Authenticator
from tarn.http.identity.proofs import (
    Accepted,
    Proofs,
    TicketChecker,
    Trusted,
    connects,
    network,
    trusted,
)

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
