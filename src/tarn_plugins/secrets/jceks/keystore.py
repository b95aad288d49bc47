"""Read the secrets in a keystore's bytes. The only module that uses pyjks."""

import logging
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from tarn.domain import Secret
from tarn.errors import ConfigError, ProviderMissingError

__all__ = ["HEAD", "examine", "secrets", "wrong_password"]

HEAD = 16
"""Bytes at the beginning that tell the kind of keystore."""
_JCEKS, _JKS, _SEQUENCE = b"\xce\xce\xce\xce", b"\xfe\xed\xfe\xed", 0x30
_INTEGER = 0x02
_PARSER = "javaobj"
_RIGHT = "Expected a JCEKS keystore, as `hadoop credential create` makes them."


def examine(head: bytes, where: str) -> None:
    """Check that a file that begins with the bytes *head* is a JCEKS keystore.

    Raises:
        ConfigError: TARN-3741: it is not.
    """
    if head.startswith(_JCEKS):
        return
    if head.startswith(_JKS):
        found = "is a JKS keystore, which can hold certificates and private keys, but not secrets"
    elif head[:1] == bytes([_SEQUENCE]):
        # a PKCS12 begins with its version, an INTEGER; a BCFKS begins with something else
        length = head[1] if len(head) > 1 else 0
        body = 2 + (length & 0x7F if length & 0x80 else 0)
        kind = "PKCS12" if head[body : body + 1] == bytes([_INTEGER]) else "BCFKS"
        found = f"is a {kind} keystore, which TARN does not read"
    else:
        found = "is empty" if not head else "is not a keystore"
    raise ConfigError(found, code="TARN-3741", where=where, right=_RIGHT)


def wrong_password(where: str) -> ConfigError:
    """Return the error for a password that does not open a keystore."""
    return ConfigError(
        "the password does not open it, or a part of it was changed",
        code="TARN-3742",
        where=where,
        next_step="Name the right one in options.password: file:PATH or env:NAME.",
    )


def secrets(data: bytes, password: str, where: str) -> Mapping[str, Secret]:
    """Return alias to value of every secret in *data*; other entries are left out.

    Raises:
        ConfigError: It is not a JCEKS keystore, is damaged, or has another password; or a value
            is not text.
        ProviderMissingError: pyjks is not installed.
    """
    examine(data[:HEAD], where)
    jks = _pyjks()
    try:
        # the signature first: with a wrong password an entry could decrypt to anything
        opened = jks.KeyStore.loads(data, password, try_decrypt_keys=False)
    except jks.KeystoreSignatureException:
        raise wrong_password(where) from None
    except Exception as error:
        raise ConfigError("is a damaged keystore", code="TARN-3741", where=where) from error
    return {
        alias: _value(alias, entry, password, jks, where)
        for alias, entry in sorted(opened.secret_keys.items())
    }


def _value(alias: str, entry: Any, password: str, jks: ModuleType, where: str) -> Secret:
    try:
        entry.decrypt(password)
        return Secret(bytes(entry.key).decode())
    except UnicodeDecodeError:
        found, code = f"the value of '{alias}' is not text", "TARN-3743"
    except jks.DecryptionFailureException:
        found, code = f"'{alias}' has a different password from the keystore's", "TARN-3742"
    except Exception:  # noqa: BLE001 (any text of pyjks may quote a part of the value)
        found, code = f"the entry '{alias}' cannot be read", "TARN-3741"
    raise ConfigError(found, code=code, where=where, right=_RIGHT)


def _pyjks() -> ModuleType:
    try:
        import jks  # noqa: PLC0415
    except ImportError as error:
        raise ProviderMissingError(
            "jceks",
            f"it reads keystores of this machine, and {ProviderMissingError.reason('jks', error)}",
            next_step="pip install 'tarn-orchestrator[secrets]'",
        ) from error
    # when something is damaged, its parser logs what it read, which may be a value
    logging.getLogger(_PARSER).setLevel(logging.CRITICAL + 1)
    module: ModuleType = jks
    return module
