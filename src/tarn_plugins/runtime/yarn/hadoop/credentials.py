"""Hadoop's credentials: what a submission carries, and what of it goes on to whom.

The master's own files are public, so whatever it must keep secret travels in the credentials of
the submission, as secret keys named ``tarn.file.<name>``. Containers of instances get the
delegation tokens alone.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tarn.errors import LaunchError, ProviderError
from tarn.java import describe, load, throwable

__all__ = ["buffer", "collect", "ends_at", "for_containers", "require_ticket", "secret_files"]

_OURS = "tarn."
_FILE = "tarn.file."


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
    if not load("org.apache.hadoop.security.UserGroupInformation").isSecurityEnabled():
        return credentials
    renewer = _renewer(conf)
    for uri in sorted(set(uris)):
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
    return credentials


def secret_files() -> dict[str, bytes]:
    """Return the secrets that the submission brought for the master, by name."""
    keys = _current().getSecretKeyMap()
    return {
        str(each.getKey()).removeprefix(_FILE): bytes(each.getValue())
        for each in keys.entrySet()
        if str(each.getKey()).startswith(_FILE)
    }


def for_containers() -> Any:
    """Return, as a ``ByteBuffer``, what an instance's container may have of this process's.

    The token that speaks for the application to the RM stays here, and so do TARN's secrets.
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
    return buffer(given)


def buffer(credentials: Any) -> Any:
    """Return *credentials* as the ``ByteBuffer`` of a ``ContainerLaunchContext``."""
    out = load("org.apache.hadoop.io.DataOutputBuffer")()
    credentials.writeTokenStorageToStream(out)
    return load("java.nio.ByteBuffer").wrap(out.getData(), 0, out.getLength())


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


def require_ticket() -> None:
    """Refuse to go on without Kerberos credentials where Hadoop wants them.

    Without this look a submission waits for minutes before it fails.
    """
    users = load("org.apache.hadoop.security.UserGroupInformation")
    try:
        user = users.getLoginUser()
    except throwable() as error:
        raise LaunchError("yarn", f"no login to Hadoop: {describe(error)}") from None
    if users.isSecurityEnabled() and not user.hasKerberosCredentials():
        raise LaunchError(
            "yarn",
            "Hadoop wants Kerberos, and there is no valid ticket",
            code="TARN-3132",
            next_step="Run `kinit`, then try again. Where the ticket is not in its usual place, "
            "set KRB5CCNAME to FILE:<path>, and KRB5_CONFIG to the krb5.conf of the realm.",
        )


def _current() -> Any:
    users = load("org.apache.hadoop.security.UserGroupInformation")
    return users.getCurrentUser().getCredentials()


def _renewer(conf: Any) -> str:
    utils = load("org.apache.hadoop.yarn.client.util.YarnClientUtils")
    try:
        found = utils.getRmPrincipal(conf)
    except throwable() as error:
        raise ProviderError("yarn", f"who renews tokens is not known: {describe(error)}") from None
    if found is None:
        raise ProviderError(
            "yarn",
            "Hadoop's configuration has no yarn.resourcemanager.principal",
            next_step="Take the yarn-site.xml of the cluster's own clients.",
        )
    return str(found)
