"""The secret by which Knox proves itself to HAProxy: where it is read, and what it may be."""

import re
from collections.abc import Mapping
from pathlib import Path

from tarn.errors import ConfigError

__all__ = ["VARIABLE", "gate", "header"]

VARIABLE = "TARN_KNOX_GATE"
_GATE = re.compile(r"[A-Za-z0-9_-]{24,128}")
"""Nothing that Knox would cut a list of headers at."""


def gate(file: Path | None, environ: Mapping[str, str]) -> str:
    """Return the secret in *file*, else in the variable; '' where there is neither.

    Raises:
        ConfigError: It cannot be read, or is not a secret that a header carries.
    """
    if file is None:
        text, where = environ.get(VARIABLE, "").strip(), VARIABLE
        if not text:
            return ""
    else:
        text, where = _read(file), str(file)
    if not _GATE.fullmatch(text):
        raise ConfigError(
            f"not a valid gateway secret: it has {len(text)} characters",
            where=where,
            right="Use 24 to 128 letters, digits, '-' and '_'.",
            next_step="For example: openssl rand -hex 32 > gate && chmod 600 gate",
            code="TARN-3343",
        )
    return text


def _read(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not ASCII text"
        raise ConfigError(
            f"the gate's secret cannot be read ({why})", where=str(file), code="TARN-3343"
        ) from error


def header(secret: str) -> str:
    """Return Knox's parameter ``requestAppendHeaders``: what it adds to what it passes on."""
    return f"X-Tarn-Gate:{secret}"
