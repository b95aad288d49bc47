"""The names of a master's files, most of which the client sends; and what the others contain.

Each has mode 0600. On YARN they are sent in the credentials of the submission.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from tarn.domain.state import SCHEMA, SavedState
from tarn.domain.view import Epoch
from tarn.errors import TarnError
from tarn.interfaces import ClusterRef
from tarn.plain.structure import from_record, to_record

__all__ = [
    "API_TOKEN",
    "CLIENT_CA",
    "LAST_PORT",
    "MASTER_FILES",
    "PROXY_TOKENS",
    "SCRAPE_TOKEN",
    "SECRETS",
    "SMOKE",
    "SPEC",
    "SPNEGO_KEYTAB",
    "STAGED",
    "TEST_REQUESTS",
    "TLS",
    "TLS_CA",
    "TRITON_SECRET",
    "StateFile",
    "newest",
    "ref_in",
    "written",
    "written_ref",
]


@attrs.frozen
class StateFile:
    """One saved state."""

    name: str
    where: str
    """The whole path, for messages."""
    read: Callable[[], bytes]
    """Returns the content, or raises ``OSError``."""


def written(state: SavedState, epoch: Epoch) -> bytes:
    """Return the content of a file for *state*."""
    document = {"schema": SCHEMA, "epoch": str(epoch), "state": to_record(state)}
    return json.dumps(document, separators=(",", ":")).encode()


def newest(files: Iterable[StateFile]) -> tuple[SavedState | None, tuple[str, ...]]:
    """Return the first readable state of *files*, and an alert for each file before it.

    Raises:
        TarnError: One of these files has a newer schema (code TARN-1007).
    """
    alerts: list[str] = []
    for file in files:
        try:
            state = _parse(file)
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            alerts.append(f"{file.name} could not be read ({reason})")
        else:
            return state, tuple(f"{alert}; {file.name} was used" for alert in alerts)
    return None, tuple(f"{alert}; nothing older is left" for alert in alerts)


def _parse(file: StateFile) -> SavedState:
    document = _document(file.read())
    schema = document["schema"]
    if schema > SCHEMA:
        raise TarnError(
            f"schema {schema} was written by a newer TARN; this one knows up to {SCHEMA}",
            code="TARN-1007",
            where=file.where,
            next_step="Use the newer TARN, or end the cluster with it first",
        )
    return from_record(SavedState, document["state"])


def written_ref(ref: ClusterRef) -> bytes:
    """Return the content of ``ref.json`` for *ref*."""
    return json.dumps({**to_record(ref), "epoch": str(ref.epoch)}).encode()


def ref_in(data: bytes) -> ClusterRef:
    """Return the reference in the content of a ``ref.json``.

    Raises:
        ValueError: *data* is not a reference.
    """
    kept = _document(data)
    try:
        epoch = Epoch.parse(kept["epoch"])
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError("it names no epoch") from error
    return from_record(ClusterRef, {**kept, "epoch": to_record(epoch)})


def _document(data: bytes) -> Any:
    try:
        return json.loads(data)
    except RecursionError as error:  # a damaged disk may hold anything
        raise ValueError("it is nested too deeply") from error


SPEC = "spec.yaml"
"""The whole spec, as values."""
STAGED = "staged.json"
TEST_REQUESTS = "test_requests.json"
"""The file that ``instance.test_request`` names."""
SMOKE = "smoke.json"
"""The file that ``update.smoke`` names."""
API_TOKEN = "api_token"  # noqa: S105 (a name)
SECRETS = "secrets.json"
"""The variables that instances get from the spec's ``secrets``, with their values."""
TLS = "tls.pem"
"""The master's private key, then its certificate and the chain."""
TLS_CA = "tls_ca.pem"
"""The authorities by which clients trust the master; not secret, kept next to ``ref.json``."""
CLIENT_CA = "client_ca.pem"
"""The authorities that sign certificates of clients."""
SPNEGO_KEYTAB = "spnego.keytab"
PROXY_TOKENS = "proxy_tokens.json"
"""The token of each trusted proxy by its name."""
SCRAPE_TOKEN = "scrape_token"  # noqa: S105 (a name)
"""The token of a Prometheus, derived from the api token; the client does not send it."""
LAST_PORT = "last_port"
"""The port of the last master of this directory, which wrote it."""
TRITON_SECRET = "triton.secret"  # noqa: S105 (a name)
"""The secret from which the keys for the restricted parts of Triton's API are derived."""
MASTER_FILES = (
    SPEC,
    STAGED,
    TEST_REQUESTS,
    SMOKE,
    API_TOKEN,
    SECRETS,
    TLS,
    TLS_CA,
    CLIENT_CA,
    SPNEGO_KEYTAB,
    PROXY_TOKENS,
    TRITON_SECRET,
)
"""All files that the end of a cluster removes, and a start replaces."""
