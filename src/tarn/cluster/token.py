"""The api token of a new cluster: generated, or read from where the spec says."""

import secrets
from collections.abc import Mapping
from pathlib import Path

from tarn.errors import ConfigError

__all__ = ["api_token"]


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
                "names no source of a token",  # never the value: somebody may have put a token here
                where="api.token",
                right="Right would be auto, none, file:PATH or env:NAME.",
            )


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except UnicodeDecodeError as error:
        raise ConfigError(f"the file {path} is not ASCII text", where="api.token") from error
    except OSError as error:
        raise ConfigError(
            f"the file {path} cannot be read ({error.strerror})",
            where="api.token",
            next_step="Make it readable by you, or name another one.",
        ) from error


def _given(token: str, place: str) -> str:
    if not token:
        raise ConfigError(f"{place} is missing or empty", where="api.token")
    return token
