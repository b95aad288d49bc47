"""Kazoo's errors, as TARN's: they name the ensemble and never a secret."""

from kazoo import exceptions as theirs

from tarn.errors import DiscoveryError

__all__ = ["NodesChangedError", "translated"]

RETRY_S = 1.0
_TLS = "A failed TLS handshake looks the same: check tls.ca, tls.cert and tls.key, and the port."
_ANSWERS = (
    "Check that the servers run and can be reached from here.",
    f"Check that the servers run and can be reached from here. {_TLS}",
)


class NodesChangedError(DiscoveryError):
    """Somebody else changed the nodes that a transaction is about; nothing of it was done."""


_CHANGED = (
    theirs.BadVersionError,
    theirs.NoNodeError,
    theirs.NodeExistsError,
    theirs.NotEmptyError,
)


def translated(
    error: BaseException, ensemble: str, doing: str, *, tls: bool = False, last: str = ""
) -> DiscoveryError:
    """Return TARN's error for one of kazoo's; the caller chains the cause.

    Args:
        error: What kazoo raised, or gave back as a value.
        ensemble: The servers, without a secret.
        doing: What was tried, in words that follow "could not".
        tls: Whether the connection is encrypted.
        last: Why the last connection failed, where that is known.
    """
    where = f"ZooKeeper {ensemble}"
    if isinstance(error, _CHANGED):
        found = f"could not {doing}: somebody else changed the nodes ({_name(error)})"
        return NodesChangedError("zookeeper", found, where=where, retry_after_s=RETRY_S)
    if isinstance(error, theirs.NoAuthError):
        return DiscoveryError(
            "zookeeper",
            f"could not {doing}: this user may not",
            code="TARN-3302",
            where=where,
            next_step="Give the digest of the user in the nodes' ACL, or have the ACL changed.",
        )
    if isinstance(error, theirs.AuthFailedError):
        return DiscoveryError(
            "zookeeper",
            f"could not {doing}: the servers refuse the digest",
            code="TARN-3302",
            where=where,
            next_step="Write user:password where 'digest' points.",
        )
    if isinstance(error, theirs.InvalidACLError):
        return DiscoveryError(
            "zookeeper",
            f"could not {doing}: the servers do not take the ACL of the new nodes",
            code="TARN-3302",
            where=where,
            next_step="A line of `acl` that begins with 'auth' needs `digest`; correct the others.",
        )
    why = f" ({last})" if last else f" ({_name(error)})"
    return DiscoveryError(
        "zookeeper",
        f"could not {doing}: no answer{why}",
        code="TARN-3301",
        where=where,
        retry_after_s=RETRY_S,
        next_step=_ANSWERS[tls],
    )


def _name(error: BaseException) -> str:
    """Return the kind of an error: its text might quote anything."""
    return type(error).__name__.removesuffix("Error")
