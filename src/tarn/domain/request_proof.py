"""How a request proves that its sender holds a token, without sending it. Pure.

The api token opens a cluster, and over plain HTTP a client cannot know who listens at an address:
after a master died, another user of the machine may. So the token stays where it is. Client and
master sign with a key that is derived from it:

1. The client says ``Authorization: TARN``; the master answers 401 with
   ``WWW-Authenticate: TARN nonce="..."``.
2. Each request carries ``Authorization: TARN p1.NONCE.COUNT.DIGEST.SIGNATURE``. The signature
   covers the method, the host and port as the client reached them, the path with its query, the
   header ``If-Match`` and the digest of the body.
3. The answer carries ``X-TARN-Proof``, made of that signature with the same key: whoever sent it
   holds the token, too.

A signature tells nothing about the token (which must not be guessable), counts once, for one
master, and only where the master itself was reached: whoever relays it has another address.
"""

import hashlib
import hmac
import re
from typing import Self

import attrs

__all__ = [
    "ANSWER_HEADER",
    "SCHEME",
    "RequestProof",
    "SignedParts",
    "answer_proof",
    "proof_key",
    "scrape_token",
]

SCHEME = "TARN"
ANSWER_HEADER = "X-TARN-Proof"

_FORM = re.compile(r"p1\.([A-Za-z0-9_-]{1,128})\.([0-9]{1,15})\.([0-9a-f]{64})\.([0-9a-f]{64})")


def proof_key(token: bytes) -> bytes:
    """Return the key with which the holders of *token* sign."""
    return hmac.digest(token, b"tarn request proof 1", "sha256")


@attrs.frozen
class SignedParts:
    """What of a request is signed, besides nonce, count and body."""

    method: str
    host: str
    """The header ``Host`` as it was sent."""
    target: str
    """Path and query as they stand in the request line."""
    if_match: str = ""


@attrs.frozen
class RequestProof:
    """The credentials of one request."""

    nonce: str
    """Of the master, which gave it to this client."""
    count: int
    """1 for the client's first request with this nonce, and one more for each."""
    digest: str
    """SHA-256 of the body in hexadecimal; the reader of the body compares it."""
    signature: str = attrs.field(default="", repr=False)

    @classmethod
    def of(cls, key: bytes, nonce: str, count: int, body: bytes, parts: SignedParts) -> Self:
        """Return the credentials of a request that the holder of *key* sends."""
        unsigned = cls(nonce, count, hashlib.sha256(body).hexdigest())
        return attrs.evolve(unsigned, signature=unsigned._sign(key, parts))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return what stands behind the scheme; None: it is not such a proof."""
        found = _FORM.fullmatch(text)
        return None if found is None else cls(found[1], int(found[2]), found[3], found[4])

    def __str__(self) -> str:
        """Return it as it stands behind the scheme."""
        return f"p1.{self.nonce}.{self.count}.{self.digest}.{self.signature}"

    def made_with(self, key: bytes, parts: SignedParts) -> bool:
        """Say whether the holder of *key* signed *parts*."""
        return hmac.compare_digest(self._sign(key, parts), self.signature)

    def _sign(self, key: bytes, parts: SignedParts) -> str:
        said = (
            "request",
            self.nonce,
            str(self.count),
            self.digest,
            parts.method,
            parts.host.lower(),
            parts.target,
            parts.if_match,
        )
        # a line break within a part would let two requests have one signature
        if any("\n" in part for part in said):
            return ""
        return hmac.digest(key, "\n".join(said).encode("utf-8", "surrogatepass"), "sha256").hex()


def scrape_token(api_token: bytes) -> bytes:
    """Return the token of a scraper, which cannot sign: it opens the metrics and nothing else."""
    return hmac.digest(api_token, b"tarn scrape token 1", "sha256").hex().encode()


def answer_proof(key: bytes, signature: str) -> str:
    """Return what proves that the holder of *key* answers the request with *signature*."""
    return hmac.digest(key, f"answer\n{signature}".encode(), "sha256").hex()
