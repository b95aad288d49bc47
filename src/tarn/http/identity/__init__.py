"""Who asks: what a request claims (`claims`), what proves it (`proofs`), who that is (`who`)."""

from tarn.http.identity.proofs import Accepted, Proofs, Tickets, Trusted, connects, network, trusted
from tarn.http.identity.who import OWNER, Identity

__all__ = [
    "OWNER",
    "Accepted",
    "Identity",
    "Proofs",
    "Tickets",
    "Trusted",
    "connects",
    "network",
    "trusted",
]
