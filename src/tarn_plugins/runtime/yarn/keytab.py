"""Check the keytab of a cluster, and reduce it to the keys of its principal. Pure."""

from collections.abc import Iterable
from pathlib import Path

import attrs

from tarn.errors import LaunchError
from tarn.plain import pasted
from tarn.plain.credentials import keytab_keys, only

__all__ = [
    "KDC_SILENT",
    "NAME",
    "Renewal",
    "excerpt",
    "in_full",
    "no_user",
    "refused",
    "unreadable",
]

# Code of an error that may be temporary.
KDC_SILENT = "TARN-3766"
# Name of the copy in a master's directory.
NAME = "kerberos.keytab"
# Most bytes of that copy. YARN stores it with the application, possibly in ZooKeeper, which accepts
# a megabyte; the key of a principal has less than a hundred bytes.
LONGEST = 64 * 1024
_KEYTAB, _PRINCIPAL = "runtime.options.kerberos.keytab", "runtime.options.kerberos.principal"
_SHOWN = 8


@attrs.frozen
class Renewal:
    """Whether a master's keytab gets new tokens."""

    principal: str = ""
    """Empty: the master has no keytab."""
    trouble: str = ""
    """Why the log-in failed; empty: new tokens can be had at any time."""

    @property
    def works(self) -> bool:
        """Whether this master can replace its tokens."""
        return bool(self.principal) and not self.trouble


def in_full(principal: str, realm: str) -> str:
    """Return *principal* with its realm, by default *realm*.

    Raises:
        LaunchError: It is not the name of a principal.
    """
    name, _, own = principal.partition("@")
    parts = name.split("/")
    if not all(parts) or "@" in own or principal.endswith("@") or not principal.isprintable():
        raise LaunchError(
            "yarn",
            "is not the name of a principal",
            code="TARN-3762",
            where=f"{_PRINCIPAL} = '{principal}'",
            right="Expected NAME@REALM, or NAME/HOST@REALM.",
        )
    if "_HOST" in parts:
        raise LaunchError(
            "yarn",
            "a master may run on any node, so _HOST has no meaning here",
            code="TARN-3762",
            where=f"{_PRINCIPAL} = '{principal}'",
            right="Expected a principal without a host, such as svc-tarn@REALM.",
        )
    return principal if own or not realm else f"{principal}@{realm}"


def excerpt(content: bytes, principal: str, path: Path) -> bytes:
    """Return a keytab with only the keys of *principal*, from the *content* of *path*.

    Raises:
        LaunchError: It is not a keytab (TARN-3761), or has no such key (TARN-3762).
    """
    where = f"{_KEYTAB} = '{path}'"
    try:
        found = only(content, principal)
        others = {key.principal for key in keytab_keys(content)}
    except ValueError as error:
        raise LaunchError(
            "yarn",
            f"is not a keytab: {error}",
            code="TARN-3761",
            where=where,
            next_step="Name a file that kadmin, ktutil or ipa-getkeytab made.",
        ) from error
    if principal not in others:
        raise LaunchError(
            "yarn",
            f"has no key of {principal}; it has keys of: {_listed(others)}",
            code="TARN-3762",
            where=where,
            next_step=f"Correct {_PRINCIPAL}, or name another keytab; "
            f"`{pasted('klist', '-kt', path)}` lists its keys.",
        )
    if len(found) > LONGEST:
        found_kib = len(found) // 1024
        raise LaunchError(
            "yarn",
            f"its keys of {principal} take {found_kib} KiB",
            code="TARN-3761",
            where=where,
            right=f"TARN copies at most {LONGEST // 1024} KiB to a master.",
            next_step="Get a new keytab with only the current keys.",
        )
    return found


def unreadable(path: Path, error: OSError) -> LaunchError:
    """Return the error for a keytab that this user cannot read."""
    missing = isinstance(error, FileNotFoundError)
    return LaunchError(
        "yarn",
        "does not exist" if missing else f"cannot be read ({error.strerror})",
        code="TARN-3761",
        where=f"{_KEYTAB} = '{path}'",
        next_step="Name a keytab on this machine that you can read, and nobody else (mode 0600).",
    )


def refused(principal: str, kinds: Iterable[str], words: str) -> LaunchError:
    """Return the error for a log-in that Kerberos refused.

    Args:
        principal: The principal that logged in.
        kinds: Names of the classes of Java's exception, and of its causes.
        words: Its text, since ``KrbException`` has no code.
    """
    where = f"{_PRINCIPAL} = '{principal}'"
    if "NoMatchingRule" in words or any(kind.endswith("NoMatchingRule") for kind in kinds):
        return no_user(principal, where)
    realm = principal.rpartition("@")[2]
    if "Cannot locate KDC" in words or "Cannot find KDC" in words:
        found = f"krb5.conf has no KDC for the realm {realm}"
    elif "CLIENT_NOT_FOUND" in words:
        return _wrong(where, "the KDC does not know this principal")
    # 24 is Kerberos's number for KDC_ERR_PREAUTH_FAILED.
    elif any(mark in words for mark in ("Checksum failed", "PREAUTH_FAILED", "(24)")):
        return _wrong(where, "the KDC refuses the key: it has a newer key for this principal")
    elif any(kind.startswith(("java.net.", "java.nio.")) for kind in kinds):
        found = f"no KDC of the realm {realm} answers ({words})"
    else:
        return _wrong(where, f"the log-in failed: {words}")
    return LaunchError(
        "yarn",
        found,
        code=KDC_SILENT,
        where=where,
        next_step="Set KRB5_CONFIG to the krb5.conf of the realm (without it, /etc/krb5.conf is "
        "read), and check with `kinit -kt KEYTAB PRINCIPAL` that its KDC answers.",
    )


def no_user(principal: str, where: str = "") -> LaunchError:
    """Return the error for a principal without a user on the cluster."""
    return LaunchError(
        "yarn",
        f"the cluster has no user for {principal}: no rule of hadoop.security.auth_to_local "
        "fits it",
        code="TARN-3764",
        where=where,
        next_step="Use a principal of the cluster's realm; or have a rule for the other realm "
        "added to core-site.xml of the cluster and of this machine.",
    )


def _wrong(where: str, found: str) -> LaunchError:
    return LaunchError(
        "yarn",
        found,
        code="TARN-3765",
        where=where,
        next_step="Try `kinit -kt KEYTAB PRINCIPAL`; if that fails too, get a new keytab.",
    )


def _listed(names: Iterable[str]) -> str:
    every = sorted(names)
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return (", ".join(every[:_SHOWN]) + more) or "none"
