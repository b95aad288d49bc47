"""Why YARN's Docker runtime did not start a container, or Docker ended it, in words. Pure.

Messages are matched, never exit codes: those differ between Hadoop's versions. Sources:
``DockerLinuxContainerRuntime`` and ``OCIContainerRuntime`` of Hadoop 3.4.2, ``docker-util.c`` (in
the wording of several versions), Docker's own client and daemon.

*Permanent* is what this spec is refused for, everywhere and always. What one node lacks is the
node's fault: another one is tried.
"""

import re
from collections.abc import Iterator

import attrs

from tarn.plain import masked
from tarn_plugins.runtime.yarn.master.docker_lacks import LACKS
from tarn_plugins.runtime.yarn.master.docker_refused import REFUSED
from tarn_plugins.runtime.yarn.master.docker_words import Blame, FailurePattern

__all__ = ["ROWS", "DockerFailure", "docker_failure"]

ROWS = (*REFUSED, *LACKS)
"""The first that fits is said."""

_LONGEST = 200
_ENOUGH = 1000
"""Characters that are looked through for passwords: no address of a registry is as long."""
_LAUNCH = "Exception from container-launch"
_REFUSED = re.compile(r"docker error code=\d+, error message='(?P<what>[^'\n]+)'")
_DAEMON = re.compile(r"^(?:Shell error output: )?docker: (?P<what>[^\n]+)", re.MULTILINE)
_MESSAGE = re.compile(
    r"^Exit code: -1\s+Exception message: (?P<what>(?!Launch container failed)\S[^\n]*)",
    re.MULTILINE,
)
"""What Java itself refused; an exit code of its own would be the program's."""
_UNTOLD = "no reason was given"


@attrs.frozen
class DockerFailure:
    """One failure, said."""

    code: str
    found: str
    """What happened: a sentence without its full stop."""
    step: str
    """The exact fix, and where it is made."""
    permanent: bool = False
    node_fault: bool = False
    port_taken: bool = False

    def __str__(self) -> str:
        """Return it as sentences on one line."""
        return f"{self.found}. {self.step}; `tarn help {self.code}` says more"


def docker_failure(diagnostics: str) -> DockerFailure | None:
    """Return what *diagnostics* tell of Docker; None where it is nothing of Docker's."""
    for row in ROWS:
        found = row.pattern.search(diagnostics)
        if found is not None and (not row.needs or row.needs in diagnostics):
            return _said(row, found, diagnostics)
    if _LAUNCH not in diagnostics:
        return None
    return next(_unknown(diagnostics), None)


def _said(row: FailurePattern, found: re.Match[str], diagnostics: str) -> DockerFailure:
    parts = {name: _short(value) for name, value in found.groupdict().items()}
    if "image" in parts:
        parts["registry"] = parts["image"].rpartition("/")[0] or "library"
    if "mount" in parts:
        parts["source"] = parts["mount"].partition(":")[0]
    parts["daemon"] = _daemon(diagnostics)
    return DockerFailure(
        row.code,
        row.found.format_map(parts),
        row.step.format_map(parts),
        permanent=row.blame is Blame.SPEC,
        node_fault=row.blame in (Blame.NODE, Blame.PORT),
        port_taken=row.blame is Blame.PORT,
    )


def _unknown(diagnostics: str) -> Iterator[DockerFailure]:
    """Yield what nothing in the table names, in its own words."""
    for pattern, who in (
        (_REFUSED, "container-executor refused the container"),
        (_DAEMON, "Docker did not start the container"),
        (_MESSAGE, "the NodeManager did not start the container"),
    ):
        if found := pattern.search(diagnostics):
            step = "See the NodeManager's log on the instance's node, and container-executor.cfg"
            yield DockerFailure("TARN-3157", f"{who}: {_end(found['what'])}", step)


def _daemon(diagnostics: str) -> str:
    found = _DAEMON.search(diagnostics)
    return _end(found["what"]) if found else _UNTOLD


def _end(value: str) -> str:
    """Return the end of what Docker says: the cause comes last."""
    text = masked(value.strip().rstrip(".")[-_ENOUGH:]).removeprefix("Error response from daemon: ")
    return text if len(text) <= _LONGEST else f"… {text[-_LONGEST:]}"


def _short(value: str | None) -> str:
    text = masked((value or "").strip().rstrip(".")[:_ENOUGH])
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
