"""Hadoop's credentials: what a submission carries, and what of it goes on to whom.

The master's own files are public, so whatever it must keep secret travels in the credentials of
the submission, as secret keys named ``tarn.file.<name>``. Containers of instances get the
delegation tokens alone.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tarn.errors import ProviderError
from tarn.java import describe, load, throwable

__all__ = ["buffer", "collect", "ends_at", "for_containers", "packed", "secret_files"]

_OURS = "tarn."
_FILE = "tarn.file."
_USERS = "org.apache.hadoop.security.UserGroupInformation"


def collect(conf: Any, uris: Iterable[str], files: Mapping[str, bytes]) -> Any:
    """Return the ``Credentials`` of a submission. Client side; needs the JVM.

    Args:
        conf: Java's ``YarnConfiguration``.
        uris: One of each file system that master and instances read or write.
        files: Name to content, found again by `secret_files`.

    Raises:
        ProviderError: A file system gives no delegation token.
    """
    credentials = load("org.apache.hadoop.security.Credentials")(_current())
    text = load("org.apache.hadoop.io.Text")
    for name, data in files.items():
        credentials.addSecretKey(text(_FILE + name), data)
    _add_tokens(conf, uris, credentials)
    return credentials


def secret_files() -> dict[str, bytes]:
    """Return the secrets that the submission brought for the master, by name."""
    keys = _current().getSecretKeyMap()
    return {
        str(each.getKey()).removeprefix(_FILE): bytes(each.getValue())
        for each in keys.entrySet()
        if str(each.getKey()).startswith(_FILE)
    }


def for_containers(conf: Any = None, uris: Iterable[str] = ()) -> Any:
    """Return the ``Credentials`` that an instance's container may have of this process's.

    The token that speaks for the application to the RM stays here, and so do TARN's secrets.

    Args:
        conf: Java's ``YarnConfiguration``; not used without *uris*.
        uris: One of each file system from which a new token is fetched, unless this process still
            holds one; only who is logged in is given any.

    Raises:
        ProviderError: A file system gives no delegation token.
    """
    mine = _current()
    given = load("org.apache.hadoop.security.Credentials")()
    master = load("org.apache.hadoop.yarn.security.AMRMTokenIdentifier").KIND_NAME
    for each in mine.getTokenMap().entrySet():
        if each.getValue().getKind() != master:
            given.addToken(each.getKey(), each.getValue())
    for each in mine.getSecretKeyMap().entrySet():
        if not str(each.getKey()).startswith(_OURS):
            given.addSecretKey(each.getKey(), each.getValue())
    _add_tokens(conf, uris, given)
    return given


def packed(credentials: Any) -> bytes:
    """Return *credentials* as Hadoop writes them into a token file."""
    out = load("org.apache.hadoop.io.DataOutputBuffer")()
    credentials.writeTokenStorageToStream(out)
    return bytes(out.getData()[: out.getLength()])


def buffer(credentials: Any) -> Any:
    """Return *credentials* as the ``ByteBuffer`` of a ``ContainerLaunchContext``."""
    return load("java.nio.ByteBuffer").wrap(packed(credentials))


def ends_at(credentials: Any) -> float | None:
    """Return when the first delegation token ends for good, Unix seconds; None: there is none.

    Until then the RM renews them by itself (source: ``AbstractDelegationTokenIdentifier``).
    """
    delegation = load(
        "org.apache.hadoop.security.token.delegation.AbstractDelegationTokenIdentifier"
    )
    ends = []
    for token in credentials.getAllTokens():
        try:
            identifier = token.decodeIdentifier()  # None: of a kind that no jar here knows
        except throwable():
            continue  # nor does this one say anything about time
        if isinstance(identifier, delegation):
            ends.append(int(identifier.getMaxDate()) / 1000)
    return min(ends, default=None)


def _add_tokens(conf: Any, uris: Iterable[str], credentials: Any) -> None:
    """Fetch the delegation tokens that *credentials* lack; a file system brings those of its KMS.

    Raises:
        ProviderError: A file system gives none.
    """
    wanted = sorted(set(uris))
    if not wanted or not load(_USERS).isSecurityEnabled():
        return
    renewer = _renewer(conf)
    for uri in wanted:
        path = load("org.apache.hadoop.fs.Path")(uri)
        try:
            path.getFileSystem(conf).addDelegationTokens(renewer, credentials)
        except throwable() as error:
            raise ProviderError(
                "yarn",
                f"the file system gave no delegation token: {describe(error)}",
                where=uri,
                next_step="Check `klist`, and that the file system can be reached from here.",
            ) from None


def _current() -> Any:
    return load(_USERS).getCurrentUser().getCredentials()


def _renewer(conf: Any) -> str:
    utils = load("org.apache.hadoop.yarn.client.util.YarnClientUtils")
    try:
        found = utils.getRmPrincipal(conf)
    except throwable() as error:
        raise ProviderError(
            "yarn", f"it is not known who renews tokens: {describe(error)}"
        ) from None
    if found is None:
        raise ProviderError(
            "yarn",
            "Hadoop's configuration has no yarn.resourcemanager.principal",
            next_step="Use the yarn-site.xml of the cluster's own clients.",
        )
    return str(found)
