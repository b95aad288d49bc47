"""What YARN says of an application, and what that means in words. Pure."""

import re
from collections.abc import Iterable

import attrs

from tarn.domain import Epoch
from tarn.domain.address import host_port
from tarn.interfaces import ClusterRef, Ending
from tarn_plugins.runtime.yarn.memory_limit import exceeded

__all__ = [
    "APPLICATION_TYPE",
    "GIVEN_UP",
    "ApplicationAttempt",
    "ApplicationReport",
    "alive",
    "cluster_tag",
    "ending",
    "failure",
    "given_up",
    "hopeless",
    "newest",
    "ref_of",
    "starting_again",
    "waiting",
]

RUNTIME = "yarn"
APPLICATION_TYPE = "TARN"

GIVEN_UP = "the start was given up: "
"""Before the reason, where `up` killed an application that did not come up."""
_KILLED = re.compile(
    r"Application \S+ was killed by user (?P<user>\S+) at \S+"
    r"(?: with diagnostic message: (?P<why>.*))?",
    re.DOTALL,
)
_OVER = frozenset({"FINISHED", "FAILED", "KILLED"})
_EXIT_CODE = re.compile(r"exitCode:\s*(-?\d+)")
_STDERR = re.compile(r"Last \d+ bytes of (?P<file>\S*stderr\S*)\s*:\n(?P<text>.*)", re.DOTALL)
_NEXT_PART = re.compile(
    r"^(?:\[\d{4}-\d\d-\d\d |For more detailed output|Last \d+ bytes of )", re.MULTILINE
)
_STAMP = re.compile(r"^\[[^\]]*\]")
_LONGEST_LINES, _LONGEST = 15, 2000
_KINDS = {
    -1000: "its files could not be brought to the node",
    -100: "its container was released, or its node was lost",
    -101: "its node ran out of healthy disks",
    -102: "its container was preempted",
    -105: "it was stopped by the application's master",
    -106: "it was stopped by the ResourceManager",
    -107: "it was stopped since the application was over",
    -108: "its node was removed",
}
"""`org.apache.hadoop.yarn.api.records.ContainerExitStatus`."""


@attrs.frozen
class ApplicationAttempt:
    """One attempt of the master."""

    number: int
    state: str
    """``YarnApplicationAttemptState``."""
    diagnostics: str = ""
    container_id: str = ""


@attrs.frozen
class ApplicationReport:
    """One application, as the ResourceManager knows it: ``ApplicationReport``."""

    application_id: str
    state: str
    """``YarnApplicationState``."""
    user: str = ""
    queue: str = ""
    final_status: str = "UNDEFINED"
    """``SUCCEEDED``, ``FAILED`` or ``KILLED`` once it is over."""
    host: str = ""
    """Where the present attempt registered itself; empty while none has."""
    port: int = 0
    tracking_url: str = ""
    """Through the ResourceManager's proxy."""
    own_url: str = ""
    """What the present attempt registered, which the proxy asks."""
    submitted_ms: int = 0
    """Unix milliseconds: what a master reads as ``APP_SUBMIT_TIME_ENV``."""
    finished_ms: int = 0
    attempt: int = 1
    diagnostics: str = ""
    attempts: tuple[ApplicationAttempt, ...] = ()
    """Where they were asked for; oldest first."""

    @property
    def container_granted(self) -> bool:
        """Whether the present attempt has its container."""
        granted = ("ALLOCATED", "LAUNCHED", "RUNNING")
        return bool(self.attempts) and self.attempts[-1].state in granted


def cluster_tag(user: str, name: str) -> str:
    """Return the application tag of a cluster; YARN keeps tags in lower case."""
    return f"tarn-{user}-{name}".lower()


def alive(report: ApplicationReport) -> bool:
    """Say whether the application is not over yet."""
    return report.state not in _OVER


def newest(reports: Iterable[ApplicationReport]) -> ApplicationReport | None:
    """Return the application that was submitted last."""
    return max(reports, key=lambda r: (r.submitted_ms, r.application_id), default=None)


def ref_of(report: ApplicationReport, name: str) -> ClusterRef:
    """Return how the cluster of *report* is reached; without a url while no attempt listens."""
    listens = report.state == "RUNNING" and bool(report.host) and report.port > 0
    scheme = "https" if report.own_url.lower().startswith("https:") else "http"
    return ClusterRef(
        name,
        RUNTIME,
        Epoch(report.submitted_ms, report.attempt),
        url=f"{scheme}://{host_port(report.host, report.port)}" if listens else None,
        proxy_url=(report.tracking_url.rstrip("/") or None) if listens else None,
        restarts=not listens and report.attempt > 1,
        application_id=report.application_id,
        started_at=report.submitted_ms / 1000,
    )


def ending(report: ApplicationReport, name: str) -> Ending:
    """Return how an application that is over ended.

    ``stopped`` is one that said so itself (`tarn down`), or that somebody killed; the reason then
    tells which. Anything else failed.
    """
    text = report.diagnostics.strip()
    by = _KILLED.match(text)
    reason = (by["why"] or "").strip() if by else text
    if reason.startswith(GIVEN_UP):  # `up` itself ended what did not come up
        state, reason = "failed", reason.removeprefix(GIVEN_UP)
    elif report.state == "KILLED" or report.final_status in ("KILLED", "SUCCEEDED"):
        state = "stopped"
        reason = f"killed by {by['user']}: {reason}".rstrip(": ") if by else _shortened(text)
    else:
        state, reason = "failed", failure(report)
    ref = attrs.evolve(ref_of(report, name), url=None, proxy_url=None)
    return Ending(name, state, reason, report.finished_ms / 1000, ref)


def failure(report: ApplicationReport) -> str:
    """Say why an application failed, from YARN's diagnostics: exit code, cause, last words."""
    text = report.diagnostics.strip()
    if not text and report.attempts:
        text = report.attempts[-1].diagnostics.strip()
    return _explain(text) or f"it ended as {report.state} and YARN gave no reason"


def given_up(report: ApplicationReport) -> str:
    """Say why waiting for a first word of this master is pointless; '' while it is not.

    An attempt whose process ended by itself will end like that again, so the attempts that YARN
    would still make are not waited for. One that YARN lost (a node, a preemption) is.
    """
    for attempt in report.attempts:
        code = _EXIT_CODE.search(attempt.diagnostics)
        if attempt.state == "FAILED" and code is not None and int(code[1]) >= 0:
            return _explain(attempt.diagnostics.strip())
    return ""


def hopeless(report: ApplicationReport) -> str:
    """Say why this application will never listen: it is over, or about to be; '' while it may."""
    return given_up(report) or ("" if alive(report) else failure(report))


def waiting(report: ApplicationReport) -> str:
    """Say what an application that does not run yet waits for."""
    text = " ".join(report.diagnostics.split()).partition(" Details :")[0].rstrip(".;")
    if report.state != "ACCEPTED":
        return f"YARN is accepting it (state {report.state})"
    present = report.attempts[-1] if report.attempts else None
    if present is not None and present.state in ("LAUNCHED", "RUNNING"):
        return "its container was started; the master has not registered yet"
    if present is not None and present.state == "ALLOCATED":
        return "its container is being started"
    return (
        f"it waits in the queue '{report.queue}': {_shortened(text)}"
        if text
        else (f"it waits in the queue '{report.queue}'")
    )


def starting_again(report: ApplicationReport) -> str:
    """Say that YARN starts a lost master again, and what that waits for; '' for the first one."""
    if report.attempt == 1 or report.state == "RUNNING" or not alive(report):
        return ""
    return (
        f"YARN is starting the master again (attempt {report.attempt}): {waiting(report)}; "
        "the instances serve meanwhile"
    )


def _explain(text: str) -> str:
    """Return YARN's *text* in a person's words; '' for no text."""
    if not text:
        return ""
    code = _EXIT_CODE.search(text)
    if code is None:
        return _shortened(text)
    number = int(code[1])
    if memory := exceeded(number, text, "master.memory"):
        return f"the master ended: {memory}"
    kind = _KINDS.get(number)
    what = (
        f"the master ended: {kind} ({number})" if kind else f"the master ended with code {number}"
    )
    words = _last_words(text) if number >= 0 else _cause(text)
    return f"{what}; {words}" if words else what


def _last_words(text: str) -> str:
    """Return the end of the master's standard error, which the NodeManager adds."""
    found = _STDERR.search(text)
    if found is None:
        return ""
    lines = _NEXT_PART.split(found["text"])[0].strip().splitlines()[-_LONGEST_LINES:]
    return "\n  ".join(["its last output:", *lines]) if lines else ""


def _cause(text: str) -> str:
    """Return what follows ``Diagnostics:``, without the pointers to pages of the RM."""
    _, found, rest = text.partition("Diagnostics:")
    cause = _STAMP.sub("", (rest if found else text).strip())
    return _shortened(_NEXT_PART.split(cause, maxsplit=1)[0] or cause)


def _shortened(text: str) -> str:
    text = _STAMP.sub("", text.strip()).strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
