"""The Hadoop credentials of a submission, and of the containers of instances.

The master's own files are public, so its secrets travel in the credentials of the submission, as
secret keys named ``tarn.file.<name>``. Containers of instances get only the delegation tokens.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tarn.errors import ProviderError
from tarn.java import describe, load, throwable

__all__ = ["collect", "ends_at", "for_containers", "packed", "secret_files"]

_OURS = "tarn."
_FILE = "tarn.file."
_USERS = "org.apache.hadoop.security.UserGroupInformation"


def collect(conf: Any, uris: Iterable[str], files: Mapping[str, bytes]) -> Any:
    """Return the ``Credentials`` of a submission. Only clients call it; it needs the JVM.

    Args:
        conf: Java's ``YarnConfiguration``.
        uris: A URI on each file system that the master and the instances use.
        files: Name -> content, for `secret_files` on the master's side.

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
    """Return the master's secret files from the submission, by name."""
    keys = _current().getSecretKeyMap()
    return {
        str(each.getKey()).removeprefix(_FILE): bytes(each.getValue())
        for each in keys.entrySet()
        if str(each.getKey()).startswith(_FILE)
    }


def for_containers(conf: Any = None, uris: Iterable[str] = ()) -> Any:
    """Return this process's ``Credentials`` without the RM's token and TARN's secrets.

    Args:
        conf: Java's ``YarnConfiguration``; not used without *uris*.
        uris: A URI on each file system that gives a new token, unless this process has one. To get
            new tokens, this process must be logged in.

    Raises:
        ProviderError: A file system gives no delegation token.
    """
    mine = _current()
    given = load("org.apache.hadoop.security.Credentials")()
    master = load("org.apache.hadoop.yarn.security.AMRMTokenIdentifier").KIND_NAME
    for each in mine.getTokenMap().entrySet():
        # With this token, a process could act as the application's master.
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


def ends_at(credentials: Any) -> float | None:
    """Return when the first delegation token ends for good, Unix seconds; None: there is none.

    Until then the RM renews them (source: ``AbstractDelegationTokenIdentifier``).
    """
    delegation = load(
        "org.apache.hadoop.security.token.delegation.AbstractDelegationTokenIdentifier"
    )
    ends = []
    for token in credentials.getAllTokens():
        try:
            identifier = token.decodeIdentifier()  # None if no jar here knows its kind
        except throwable():
            continue  # so its end is not known either
        if isinstance(identifier, delegation):
            ends.append(int(identifier.getMaxDate()) / 1000)
    return min(ends, default=None)


def _add_tokens(conf: Any, uris: Iterable[str], credentials: Any) -> None:
    """Add missing delegation tokens to *credentials*, also those of a file system's KMS.

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
                next_step="Check your ticket with `klist`, and that this machine reaches the "
                "file system.",
            ) from None


def _current() -> Any:
    return load(_USERS).getCurrentUser().getCredentials()


def _renewer(conf: Any) -> str:
    utils = load("org.apache.hadoop.yarn.client.util.YarnClientUtils")
    try:
        found = utils.getRmPrincipal(conf)
    except throwable() as error:
        raise ProviderError(
            "yarn",
            "the ResourceManager, which renews delegation tokens, has no known principal: "
            f"{describe(error)}",
            next_step="Use the yarn-site.xml of the cluster's own clients.",
        ) from None
    if found is None:
        raise ProviderError(
            "yarn",
            "Hadoop's configuration has no yarn.resourcemanager.principal",
            next_step="Use the yarn-site.xml of the cluster's own clients.",
        )
    return str(found)
