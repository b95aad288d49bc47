"""Who this process is to Hadoop: by a ticket, by a keytab, or by the tokens it was given."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

from tarn.errors import LaunchError, ProviderError
from tarn.java import describe, load, throwable
from tarn_plugins.runtime.yarn import keytab, ticket

__all__ = ["by_keytab", "keep_on", "require_ticket", "stay_logged_in"]

_USERS = "org.apache.hadoop.security.UserGroupInformation"
REPLACED = frozenset(
    {"HDFS_DELEGATION_TOKEN", "WEBHDFS delegation", "SWEBHDFS delegation", "kms-dt", "OzoneToken"}
)
"""Kinds of tokens in whose place a log-in serves. One that is still there is used before Kerberos,
also when it has ended, and no new token is given over a connection that a token opened."""


def require_ticket(environ: Mapping[str, str]) -> None:
    """Refuse to go on without Kerberos credentials where Hadoop wants them.

    Without this look a submission waits for minutes before it fails.

    Raises:
        LaunchError: TARN-3132, TARN-3763: there is no ticket, or it has ended. TARN-3764: it is of
            somebody for whom the cluster has no user.
    """
    users = load(_USERS)
    try:
        user = users.getLoginUser()
    except throwable() as error:
        raise _no_login(environ, str(describe(error))) from None
    if users.isSecurityEnabled() and not user.hasKerberosCredentials():
        raise _no_ticket(environ)


def by_keytab(principal: str, path: Path) -> bytes:
    """Log in with a keytab, and return one with the keys of *principal* alone. Client side.

    Raises:
        LaunchError: TARN-3761 to TARN-3766: why not.
    """
    users = load(_USERS)
    if not users.isSecurityEnabled():
        raise LaunchError(
            "yarn",
            "Hadoop's configuration here does not use Kerberos (hadoop.security.authentication "
            "= simple), so a keytab would be useless and unprotected",
            code="TARN-3131",
            where="runtime.options.kerberos",
            next_step="Remove it, or set HADOOP_CONF_DIR to the configuration of a cluster with "
            "Kerberos.",
        )
    name = keytab.in_full(principal, _realm())
    try:
        content = path.read_bytes()
    except OSError as error:
        raise keytab.unreadable(path, error) from error
    mine = keytab.excerpt(content, name, path)
    _log_in(name, path)
    return mine


def keep_on(principal: str, path: Path) -> None:
    """Log in with a keytab, and keep those tokens for which that is not a substitute. A master's.

    To be called before anything of Hadoop's is opened: what is open goes on as it began.

    Raises:
        LaunchError: TARN-3764 to TARN-3766; the process is who it was.
    """
    users = load(_USERS)
    before = users.getCurrentUser().getCredentials()
    _log_in(principal, path)
    kept = load("org.apache.hadoop.security.Credentials")()
    for each in before.getTokenMap().entrySet():
        if str(each.getValue().getKind()) not in REPLACED:
            kept.addToken(each.getKey(), each.getValue())
    for each in before.getSecretKeyMap().entrySet():
        kept.addSecretKey(each.getKey(), each.getValue())
    users.getLoginUser().addCredentials(kept)


def stay_logged_in() -> None:
    """Log in again where the ticket of the keytab is about to end; else nothing. Any thread.

    Hadoop does so by itself when a connection is refused, after a pause of some seconds.

    Raises:
        ProviderError: With the codes of `keep_on`; another time may be better, whatever it is.
    """
    user = load(_USERS).getLoginUser()
    try:
        user.checkTGTAndReloginFromKeytab()
    except throwable() as error:
        fault = describe(error)
        why = keytab.refused(str(user.getUserName()), fault.kinds, str(fault))
        raise ProviderError(
            "yarn", why.found, code=why.code, where=why.where, next_step=why.next_step
        ) from None


def _log_in(principal: str, path: Path) -> None:
    users = load(_USERS)
    try:
        users.loginUserFromKeytab(principal, str(path))
        users.getLoginUser().getShortUserName()  # which the cluster makes of it, by the same rules
    except throwable() as error:
        fault = describe(error)
        raise keytab.refused(principal, fault.kinds, str(fault)) from None


def _realm() -> str:
    """Return the default realm of krb5.conf; '' where it names none."""
    return str(
        load("org.apache.hadoop.security.authentication.util.KerberosUtil").getDefaultRealm()
    )


def _no_ticket(environ: Mapping[str, str]) -> LaunchError:
    path = ticket.cache_file(environ, os.getuid())
    found, now = _found(path), time.time()
    over = found is not None and found.ends_at <= now
    return LaunchError(
        "yarn",
        "Hadoop requires Kerberos, but there is no valid ticket: "
        + ticket.why_none(environ, path, found, now),
        code="TARN-3763" if over else "TARN-3132",
        next_step="Run `kinit`, then try again. If the ticket is not in its usual place, set "
        "KRB5CCNAME to FILE:<path>, and KRB5_CONFIG to the krb5.conf of the realm; or name "
        "a keytab in runtime.options.kerberos.",
    )


def _no_login(environ: Mapping[str, str], words: str) -> LaunchError:
    found = _found(ticket.cache_file(environ, os.getuid()))
    if "NoMatchingRule" in words and found is not None:
        return keytab.foreign(found.principal, "the ticket")
    return LaunchError("yarn", f"no login to Hadoop: {words}")


def _found(path: str | None) -> ticket.Ticket | None:
    try:
        return None if path is None else ticket.read(Path(path).read_bytes())
    except OSError:
        return None
