"""Log in to Hadoop by a ticket or a keytab, and look up Hadoop's users.

Java reads ticket caches in files, and only reports whether it found a valid ticket. So this module
reads the cache to find out why it found none. The format is MIT's ("Credential cache file format"),
versions 3 and 4; every number is big-endian.
"""

import datetime as dt
import os
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn.errors import LaunchError, ProviderError
from tarn.java import describe, load, throwable
from tarn_plugins.runtime.yarn import keytab

__all__ = ["HadoopNames", "by_keytab", "keep_on", "require_ticket", "stay_logged_in"]

_USERS = "org.apache.hadoop.security.UserGroupInformation"
# Kinds of tokens that a log-in replaces. Hadoop prefers a present token to Kerberos, even an ended
# one, and gives no new token over a connection that was opened with a token.
REPLACED = frozenset(
    {"HDFS_DELEGATION_TOKEN", "WEBHDFS delegation", "SWEBHDFS delegation", "kms-dt", "OzoneToken"}
)

_MAGICS = {b"\x05\x03": 3, b"\x05\x04": 4}
_TGT = "krbtgt/"

_RULES = "hadoop.security.auth_to_local"
_UNRULED = "org.apache.hadoop.security.authentication.util.KerberosName$NoMatchingRule"
_MALFORMED = "java.lang.IllegalArgumentException"
# Hadoop's text for unknown users and users without groups (``Groups.noGroupsForUser``).
_UNKNOWN = "No groups found for user"


@attrs.frozen
class Ticket:
    """A ticket-granting ticket."""

    principal: str
    ends_at: float
    """Unix seconds."""


def require_ticket(environ: Mapping[str, str]) -> None:
    """Require Kerberos credentials if Hadoop does.

    Raises:
        LaunchError: There is no ticket, or it has ended (TARN-3132, TARN-3763), or the cluster has
            no user for its principal (TARN-3764).
    """
    # Without this check, a submission waits for minutes before it fails.
    users = load(_USERS)
    try:
        user = users.getLoginUser()
    except throwable() as error:
        raise _no_login(environ, str(describe(error))) from None
    if users.isSecurityEnabled() and not user.hasKerberosCredentials():
        raise _no_ticket(environ)


def by_keytab(principal: str, path: Path) -> bytes:
    """Log in with a keytab, and return one with only the keys of *principal*. Client side.

    Raises:
        LaunchError: It failed (TARN-3761 to TARN-3766).
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
    """Log in with a keytab, and keep the tokens that this does not replace. Master's side.

    Must be called before any connection to Hadoop is opened, since open ones keep their user.

    Raises:
        LaunchError: It failed (TARN-3764 to TARN-3766), and the process keeps its user.
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
    """Log in again if the ticket of the keytab is about to end. Any thread may call it.

    Raises:
        ProviderError: It failed, with the codes of `keep_on`; a later call may succeed.
    """
    # Hadoop does so itself, but only after a connection was refused and a pause of some seconds.
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
        users.getLoginUser().getShortUserName()  # fails without a matching rule
    except throwable() as error:
        fault = describe(error)
        raise keytab.refused(principal, fault.kinds, str(fault)) from None


def _realm() -> str:
    """Return the default realm of krb5.conf, or ''."""
    return str(
        load("org.apache.hadoop.security.authentication.util.KerberosUtil").getDefaultRealm()
    )


def _no_ticket(environ: Mapping[str, str]) -> LaunchError:
    path = ticket_file(environ, os.getuid())
    found, now = _found(path), time.time()
    over = found is not None and found.ends_at <= now
    return LaunchError(
        "yarn",
        "Hadoop requires Kerberos, but there is no valid ticket: "
        + why_no_ticket(environ, path, found, now),
        code="TARN-3763" if over else "TARN-3132",
        next_step="Run `kinit`, then try again. If the ticket is not in its usual place, set "
        "KRB5CCNAME to FILE:<path>, and KRB5_CONFIG to the krb5.conf of the realm; or name "
        "a keytab in runtime.options.kerberos.",
    )


def _no_login(environ: Mapping[str, str], words: str) -> LaunchError:
    found = _found(ticket_file(environ, os.getuid()))
    if "NoMatchingRule" in words and found is not None:
        return keytab.no_user(found.principal, "the ticket")
    return LaunchError("yarn", f"no login to Hadoop: {words}")


def _found(path: str | None) -> Ticket | None:
    try:
        return None if path is None else read_ticket(Path(path).read_bytes())
    except OSError:
        return None


def ticket_file(environ: Mapping[str, str], uid: int) -> str | None:
    """Return the path of the cache that Java reads; None if it is not a file."""
    name = environ.get("KRB5CCNAME", "") or f"/tmp/krb5cc_{uid}"  # noqa: S108 (Kerberos's own)
    kind, colon, rest = name.partition(":")
    # A path without a kind may contain a colon, too.
    if not colon or "/" in kind:
        return name
    return rest if kind == "FILE" else None


def why_no_ticket(
    environ: Mapping[str, str], path: str | None, ticket: Ticket | None, at: float
) -> str:
    """Return why there is no valid ticket at *at*.

    Args:
        environ: The client's.
        path: The result of `ticket_file`.
        ticket: The ticket in that file; None if it has none.
        at: Unix seconds.
    """
    if path is None:
        return (
            f"KRB5CCNAME is {environ['KRB5CCNAME']}, but Java reads tickets from files only: "
            "set KRB5CCNAME to FILE:<path> before `kinit`"
        )
    if ticket is None:
        return f"{path} holds none"
    if ticket.ends_at <= at:
        ended = dt.datetime.fromtimestamp(ticket.ends_at, dt.UTC)
        return f"the one of {ticket.principal} ended at {ended:%Y-%m-%d %H:%M} UTC"
    return f"the one of {ticket.principal} in {path} was not accepted"


def read_ticket(data: bytes) -> Ticket | None:
    """Return the ticket-granting ticket in a cache that ends last, or None."""
    version = _MAGICS.get(data[:2])
    if version is None:
        return None
    reader = _TicketReader(data, 2)
    try:
        if version > 3:  # noqa: PLR2004 (what version 4 has besides)
            reader.skip(reader.number("H"))
        reader.principal()  # whose cache it is
        return max(reader.tickets(version), key=lambda ticket: ticket.ends_at, default=None)
    except (struct.error, ValueError):
        return None


@attrs.define
class _TicketReader:
    data: bytes
    at: int

    def number(self, kind: str) -> int:
        (value,) = struct.unpack_from(f">{kind}", self.data, self.at)
        self.at += struct.calcsize(f">{kind}")
        return int(value)

    def skip(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise ValueError("cut off")
        self.at += size
        return self.data[self.at - size : self.at]

    def principal(self) -> str:
        self.number("I")  # the type of the name
        count = self.number("I")
        realm = self.skip(self.number("I")).decode(errors="replace")
        parts = [self.skip(self.number("I")).decode(errors="replace") for _ in range(count)]
        return f"{'/'.join(parts)}@{realm}"

    def tickets(self, version: int) -> Iterator[Ticket]:
        while self.at < len(self.data):
            client, server = self.principal(), self.principal()
            self.skip(2 if version > 3 else 4)  # noqa: PLR2004 (version 3 writes the type twice)
            self.skip(self.number("I"))  # the session's key
            _auth, _start, ends_at, _renew = (self.number("I") for _ in range(4))
            self.skip(5)  # flags
            for _ in range(2):  # addresses, and authorization data
                for _ in range(self.number("I")):
                    self.number("H")
                    self.skip(self.number("I"))
            for _ in range(2):  # the ticket, and a second one
                self.skip(self.number("I"))
            if server.startswith(_TGT):
                yield Ticket(client, float(ends_at))


@attrs.define
class HadoopNames:
    """The `UserDirectory` of the cluster, whose groups Hadoop caches. Any thread; needs the JVM."""

    conf: Any
    """A Java ``Configuration``."""

    # ``Groups``, which reports failed look-ups, unlike ``UserGroupInformation``.
    _groups: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        # A copy: the rule below is for this class, not for other users of *conf*.
        rules = load("org.apache.hadoop.conf.Configuration")(self.conf)
        if not str(self.conf.getTrimmed(_RULES) or ""):
            # By default, a Hadoop without Kerberos would drop any realm.
            rules.set(_RULES, "DEFAULT")
        load("org.apache.hadoop.security.HadoopKerberosName").setConfiguration(rules)
        groups = load("org.apache.hadoop.security.Groups")
        self._groups = groups.getUserToGroupsMappingService(self.conf)

    def short(self, principal: str) -> str:
        """Return the user name of *principal*; '' if no rule fits, or it is malformed."""
        try:
            name = load("org.apache.hadoop.security.HadoopKerberosName")(principal)
            return str(name.getShortName() or "")
        except throwable() as error:
            fault = describe(error)
            if fault.is_a(_UNRULED, _MALFORMED):
                return ""
            raise ProviderError("yarn", str(fault), where=principal) from None

    def groups(self, user: str) -> frozenset[str]:
        """Return the groups of *user*, none for an unknown one."""
        try:
            return frozenset(str(one) for one in self._groups.getGroups(user))
        except throwable() as error:
            fault = describe(error)
            if _UNKNOWN in fault.message:
                return frozenset()
            raise ProviderError("yarn", str(fault), where=user) from None
