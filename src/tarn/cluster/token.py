"""The secrets of a new cluster: its api token, and what its Tritons' keys are derived from."""

import secrets
from collections.abc import Mapping
from pathlib import Path

from tarn.errors import ConfigError

__all__ = ["api_token", "triton_secret"]


def api_token(source: str, environ: Mapping[str, str], kept: Path) -> str | None:
    """Return the token that *source* (``api.token``) means; None when no token is asked for.

    Args:
        source: ``auto``, ``none``, ``file:PATH`` or ``env:NAME``.
        environ: The client's environment.
        kept: Where an earlier ``up`` left its token. ``auto`` uses it again, so that followers
            of a cluster whose master is taken over stay welcome.

    Raises:
        ConfigError: The file or the variable cannot be read, or is empty.
    """
    kind, _, name = source.partition(":")
    match kind:
        case "none":
            return None
        case "auto":
            return (_read(kept) if kept.is_file() else "") or secrets.token_urlsafe(32)
        case "file":
            return _given(_read(Path(name).expanduser()), f"the file {name}")
        case "env":
            return _given(environ.get(name, "").strip(), f"the environment variable {name}")
        case _:
            raise ConfigError(
                "does not say where the token is",  # never the value: it may be the token itself
                where="api.token",
                right="Expected auto, none, file:PATH or env:NAME.",
            )


def triton_secret(kept: Path) -> bytes:
    """Return the secret of the restricted parts of Triton's API: 43 characters, 256 bits.

    Args:
        kept: Where an earlier ``up`` left it: a master that takes over instances whose master was
            lost must know their keys.

    Raises:
        ConfigError: What is kept cannot be read.
    """
    before = _read(kept, "triton.restricted") if kept.is_file() else ""
    return (before or secrets.token_urlsafe(32)).encode("ascii")


def _read(path: Path, where: str = "api.token") -> str:
    try:
        return path.read_text("ascii").strip()
    except UnicodeDecodeError as error:
        raise ConfigError(f"the file {path} is not ASCII text", where=where) from error
    except OSError as error:
        raise ConfigError(
            f"the file {path} cannot be read ({error.strerror})",
            where=where,
            next_step="Make it readable by you, or name another one.",
        ) from error


def _given(token: str, place: str) -> str:
    if not token:
        raise ConfigError(f"{place} is missing or empty", where="api.token")
    return token
