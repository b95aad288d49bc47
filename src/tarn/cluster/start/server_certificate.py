"""Check the server certificate of a master before anything starts.

The checks make TLS handshakes in memory, so they fail where a client of the master would.
"""

import re
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from tarn.cluster.start.keystore import KeystoreError, opened
from tarn.domain import Secret
from tarn.domain.spec import TlsSpec
from tarn.errors import ConfigError, ConfigErrors
from tarn.plain import pasted
from tarn.plain.master_files import CLIENT_CA, TLS, TLS_CA
from tarn.tls.contexts import covers, hosts, seen_by, server_context, shake

__all__ = ["ends_soon", "server_certificate"]

_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.+?-----END \1-----", re.DOTALL)
_KEYS = (b"PRIVATE KEY", b"RSA PRIVATE KEY", b"EC PRIVATE KEY", b"ENCRYPTED PRIVATE KEY")
_CERTIFICATE = b"CERTIFICATE"
# Certificates that are renewed automatically usually are by then.
_SOON_S = 30 * 86400.0
_NEW_ONE = "Get a new certificate, or check this machine's clock"
_ENCRYPTED = (b"ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED")


def server_certificate(
    tls: TlsSpec, passwords: Mapping[str, Secret], listens_at: Sequence[str], at: float
) -> Mapping[str, bytes]:
    """Return the files of *tls* in PEM, by the names that a master gives them.

    Args:
        tls: ``api.tls``.
        passwords: The secrets of the spec, by alias.
        listens_at: Hosts of which the certificate must name one; empty: not known yet.
        at: Now, Unix seconds.

    Raises:
        ConfigErrors: Every error in the files (TARN-3720 to TARN-3727).
    """
    errors: list[ConfigError] = []
    files: dict[str, bytes] = {}
    if tls.client_ca is not None:
        try:
            files[CLIENT_CA] = _authorities(Path(tls.client_ca), "api.tls.client_ca")
        except ConfigError as error:
            errors.append(error)
    try:
        files[TLS], files[TLS_CA] = _pair(tls, passwords)
        errors += _untrusted(files, tls, listens_at, at)
    except ConfigError as error:
        errors.append(error)
    if errors:
        raise ConfigErrors(errors)
    return files


def ends_soon(files: Mapping[str, bytes], at: float) -> str:
    """Return a sentence if the certificate among *files* expires within 30 days, else ''.

    *files* are those of `server_certificate`.
    """
    if TLS not in files:
        return ""
    seen = shake(_served(files[TLS], "api.tls"), seen_by(files[TLS_CA].decode("ascii")))
    ends = ssl.cert_time_to_seconds(str(seen["notAfter"]))
    if ends - at > _SOON_S:
        return ""
    days = int((ends - at) // 86400)
    return f"the certificate ends on {_day(ends)}, in {days} days; a new one takes a new `tarn up`"


def _pair(tls: TlsSpec, passwords: Mapping[str, Secret]) -> tuple[bytes, bytes]:
    """Return the private key with its certificates, and the authorities that clients trust."""
    if tls.keystore is not None:
        own = _from_keystore(Path(tls.keystore), tls.keystore_password_alias, passwords)
    else:
        own = _from_pem(Path(tls.cert or ""), None if tls.key is None else Path(tls.key))
    certificates = _blocks(own, _CERTIFICATE)
    if tls.ca is not None:
        return own, _authorities(Path(tls.ca), "api.tls.ca")
    return own, certificates[-1] + b"\n"


def _from_keystore(path: Path, alias: str, passwords: Mapping[str, Secret]) -> bytes:
    # Hadoop's credential stores keep aliases in lower case.
    known = {name.lower(): value for name, value in passwords.items()}
    password = known.get(alias.lower())
    if password is None:
        _refuse(
            "TARN-3725",
            "api.tls.keystore_password_alias",
            f"{path} needs a password, and `secrets` has no secret named '{alias}'",
            "Add it with `tarn secrets put`, or name another secret",
        )
    try:
        return opened(_read(path, "api.tls.keystore"), password.reveal())
    except KeystoreError as error:
        code = "TARN-3725" if error.password else "TARN-3724"
        step = "Use a keystore with exactly one private key, its certificate and the chain"
        _refuse(code, f"api.tls.keystore: {path}", str(error), step)


def _from_pem(cert: Path, key: Path | None) -> bytes:
    where = "api.tls.cert" if key is None else "api.tls.key"
    chain = _blocks(_read(cert, "api.tls.cert"), _CERTIFICATE)
    holder = key or cert
    keys = _blocks(_read(holder, where), *_KEYS)
    if not chain:
        _refuse("TARN-3720", f"api.tls.cert: {cert}", "holds no certificate in PEM")
    if len(keys) != 1:
        count = f"{len(keys)} private keys" if keys else "no private key"
        _refuse("TARN-3720", f"{where}: {holder}", f"holds {count} in PEM; it must be one")
    if any(mark in keys[0] for mark in _ENCRYPTED):
        _refuse(
            "TARN-3722",
            f"{where}: {holder}",
            "the private key is encrypted, and a master cannot ask for its password",
            "Decrypt it into a file that only you can read: (umask 077; "
            f"{pasted('openssl', 'pkey', '-in', holder)} -out key.pem)",
        )
    return b"\n".join([*keys, *chain, b""])


def _authorities(path: Path, where: str) -> bytes:
    found = _blocks(_read(path, where), _CERTIFICATE)
    try:
        seen_by(b"\n".join(found).decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        what = "holds no certificate in PEM" if not found else f"is damaged ({error})"
        _refuse("TARN-3720", f"{where}: {path}", what)
    return b"\n".join([*found, b""])


def _untrusted(
    files: Mapping[str, bytes], tls: TlsSpec, listens_at: Sequence[str], at: float
) -> list[ConfigError]:
    """Return the reasons why clients would not trust a master with these *files*."""
    where = "api.tls.cert" if tls.keystore is None else "api.tls.keystore"
    place = f"{where}: {tls.cert if tls.keystore is None else tls.keystore}"
    server = _served(files[TLS], place)
    ca = files[TLS_CA].decode("ascii")
    try:
        seen = shake(server, seen_by(ca))
    except ssl.SSLError as error:
        found = f"is not signed by an authority in api.tls.ca ({_words(error)})"
        return [_error("TARN-3726", place, found, "Name its authority in api.tls.ca")]
    begins = ssl.cert_time_to_seconds(str(seen["notBefore"]))
    ends = ssl.cert_time_to_seconds(str(seen["notAfter"]))
    late = []
    if not begins <= at < ends:
        day = _day(ends if at >= ends else begins)
        found = f"has expired on {day}" if at >= ends else f"is not valid before {day}"
        late.append(_error("TARN-3723", place, found, _NEW_ONE))
    else:
        try:
            shake(server, seen_by(ca, dated=True))
        except ssl.SSLError as error:
            late.append(_error("TARN-3723", place, f"its chain: {_words(error)}", _NEW_ONE))
    return late + _other_hosts(server, ca, hosts(seen), place, listens_at)


def _served(own: bytes, place: str) -> ssl.SSLContext:
    """Return the TLS context that the master will listen with."""
    with tempfile.TemporaryDirectory() as folder:  # only this user may read it
        path = Path(folder) / TLS
        path.write_bytes(own)
        try:
            return server_context(path)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                found = "the private key does not belong to the first certificate"
                step = "The machine's own certificate must come first, then the chain"
                _refuse("TARN-3721", place, found, step)
            _refuse("TARN-3720", place, f"cannot be used for TLS ({_words(error)})")


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _other_hosts(
    server: ssl.SSLContext,
    ca: str,
    named: tuple[str, ...],
    place: str,
    listens_at: Sequence[str],
) -> list[ConfigError]:
    step = (
        "Every host where a master may run needs a subject alternative name, or all of them a "
        "wildcard"
    )
    if not named:
        return [_error("TARN-3727", place, "names no host: it has no alternative names", step)]
    if not listens_at or any(covers(server, ca, host) for host in listens_at):
        return []
    found = f"names {', '.join(named)}, and the master will listen at {' or '.join(listens_at)}"
    return [_error("TARN-3727", place, found, step)]


def _blocks(data: bytes, *kinds: bytes) -> list[bytes]:
    """Return the PEM blocks of *data* that are of one of the *kinds*, in order."""
    return [found[0] for found in _BLOCK.finditer(data) if found[1] in kinds]


def _read(path: Path, where: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        step = "Make it readable by you, or name another one"
        _refuse("TARN-3720", f"{where}: {path}", f"cannot be read ({error.strerror})", step)


def _refuse(code: str, where: str, found: str, step: str = "") -> NoReturn:
    raise _error(code, where, found, step)


def _error(code: str, where: str, found: str, step: str) -> ConfigError:
    return ConfigError(found, code=code, where=where, next_step=step)


def _words(error: ssl.SSLError) -> str:
    told = getattr(error, "verify_message", "") or str(error.reason or "").replace("_", " ").lower()
    return told or str(error)
