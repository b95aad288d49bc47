"""YARN's reports of applications, their explanations, and errors of a start. Pure."""

import re
from collections.abc import Iterable

import attrs

from tarn.domain import Epoch
from tarn.domain.endpoint import host_port
from tarn.errors import LaunchError, NotFoundError, TimedOutError
from tarn.interfaces import ClusterRef, Ending
from tarn_plugins.runtime.yarn.diagnostics import memory_hint

__all__ = [
    "APPLICATION_TYPE",
    "GIVEN_UP",
    "ApplicationAttempt",
    "ApplicationReport",
    "alive",
    "cluster_tag",
    "ending",
    "failed_start",
    "hopeless",
    "late_start",
    "newest",
    "no_log",
    "not_ended",
    "ref_of",
    "starting_again",
    "unheard_start",
    "unknown_application",
    "waiting",
]

RUNTIME = "yarn"
APPLICATION_TYPE = "TARN"

# Precedes the reason if `up` killed an application that did not come up.
GIVEN_UP = "the start was given up: "
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
# `org.apache.hadoop.yarn.api.records.ContainerExitStatus`.
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
    """The host that the present attempt registered; empty before that."""
    port: int = 0
    tracking_url: str = ""
    """Through the ResourceManager's proxy."""
    own_url: str = ""
    """The URL that the present attempt registered, to which the proxy forwards."""
    submitted_ms: int = 0
    """Unix milliseconds, which a master reads as ``APP_SUBMIT_TIME_ENV``."""
    finished_ms: int = 0
    attempt: int = 1
    diagnostics: str = ""
    attempts: tuple[ApplicationAttempt, ...] = ()
    """Oldest first; empty unless requested."""

    @property
    def container_granted(self) -> bool:
        """Whether the present attempt has its container."""
        granted = ("ALLOCATED", "LAUNCHED", "RUNNING")
        return bool(self.attempts) and self.attempts[-1].state in granted


def cluster_tag(user: str, name: str) -> str:
    """Return the application tag of a cluster; YARN keeps tags in lower case."""
    return f"tarn-{user}-{name}".lower()


def alive(report: ApplicationReport) -> bool:
    """Return whether the application has not ended."""
    return report.state not in _OVER


def newest(reports: Iterable[ApplicationReport]) -> ApplicationReport | None:
    """Return the application that was submitted last, or None."""
    return max(reports, key=lambda r: (r.submitted_ms, r.application_id), default=None)


def ref_of(report: ApplicationReport, name: str) -> ClusterRef:
    """Return the reference to the cluster of *report*, without a url if no attempt listens."""
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
    """Return how an ended application ended.

    It is ``stopped`` if it ended itself (by `tarn down`) or was killed, and ``failed`` otherwise.
    """
    text = report.diagnostics.strip()
    by = _KILLED.match(text)
    reason = (by["why"] or "").strip() if by else text
    if reason.startswith(GIVEN_UP):  # killed by `up`, since it did not come up
        state, reason = "failed", reason.removeprefix(GIVEN_UP)
    elif report.state == "KILLED" or report.final_status in ("KILLED", "SUCCEEDED"):
        state = "stopped"
        reason = f"killed by {by['user']}: {reason}".rstrip(": ") if by else _shortened(text)
    else:
        state, reason = "failed", failure(report)
    ref = attrs.evolve(ref_of(report, name), url=None, proxy_url=None)
    return Ending(name, state, reason, report.finished_ms / 1000, ref)


def failure(report: ApplicationReport) -> str:
    """Return why an application failed, from YARN's diagnostics."""
    text = report.diagnostics.strip()
    if not text and report.attempts:
        text = report.attempts[-1].diagnostics.strip()
    return _explain(text) or f"it ended as {report.state} and YARN gave no reason"


def given_up(report: ApplicationReport) -> str:
    """Return why this master will never register; '' while it may."""
    # A process that ended by itself will do so in the next attempt, too. One that YARN ended, by a
    # preemption or the loss of a node, may succeed.
    for attempt in report.attempts:
        code = _EXIT_CODE.search(attempt.diagnostics)
        if attempt.state == "FAILED" and code is not None and int(code[1]) >= 0:
            return _explain(attempt.diagnostics.strip())
    return ""


def hopeless(report: ApplicationReport) -> str:
    """Return why this application will never listen, since it ended or will end; else ''."""
    return given_up(report) or ("" if alive(report) else failure(report))


def waiting(report: ApplicationReport) -> str:
    """Return what an application that is not yet running waits for."""
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
    """Return that YARN restarts a lost master, and what that waits for; else ''."""
    if report.attempt == 1 or report.state == "RUNNING" or not alive(report):
        return ""
    return (
        f"YARN is starting the master again (attempt {report.attempt}): {waiting(report)}; "
        "the instances serve meanwhile"
    )


def _explain(text: str) -> str:
    """Return an explanation of YARN's *text*; '' for no text."""
    if not text:
        return ""
    code = _EXIT_CODE.search(text)
    if code is None:
        return _shortened(text)
    number = int(code[1])
    if memory := memory_hint(number, text, "master.memory"):
        return f"the master ended: {memory}"
    kind = _KINDS.get(number)
    what = (
        f"the master ended: {kind} ({number})" if kind else f"the master ended with code {number}"
    )
    words = _last_words(text) if number >= 0 else _cause(text)
    return f"{what}; {words}" if words else what


def _last_words(text: str) -> str:
    """Return the end of the master's standard error, if the NodeManager added it."""
    found = _STDERR.search(text)
    if found is None:
        return ""
    lines = _NEXT_PART.split(found["text"])[0].strip().splitlines()[-_LONGEST_LINES:]
    return "\n  ".join(["its last output:", *lines]) if lines else ""


def _cause(text: str) -> str:
    """Return the text after ``Diagnostics:``, without references to the RM's pages."""
    _, found, rest = text.partition("Diagnostics:")
    cause = _STAMP.sub("", (rest if found else text).strip())
    return _shortened(_NEXT_PART.split(cause, maxsplit=1)[0] or cause)


def _shortened(text: str) -> str:
    text = _STAMP.sub("", text.strip()).strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def failed_start(application_id: str, reason: str) -> LaunchError:
    """Return the error for a start with a known reason."""
    return LaunchError(
        "yarn",
        reason,
        where=application_id,
        next_step=f"Log: `yarn logs -applicationId {application_id}`",
    )


def unknown_application(application_id: str) -> LaunchError:
    """Return the error for an application that YARN has forgotten."""
    return LaunchError("yarn", f"YARN does not know {application_id} any more")


def late_start(report: ApplicationReport, within_s: float, *, granted: bool) -> LaunchError:
    """Return the error for a master that did not come up in time."""
    application_id = report.application_id
    # YARN gives up a master that is silent for its expiry interval. The next one is often as slow.
    earlier = "".join(
        f"; attempt {attempt.number} was given up: {_shortened(attempt.diagnostics)}"
        for attempt in report.attempts[:-1]
        if attempt.diagnostics
    )
    log = f"Log: `yarn logs -applicationId {application_id}`"
    room = "Choose a queue with room in runtime.options.queue, or lower master.memory."
    since = "after it got its container" if granted else "after its submission"
    return LaunchError(
        "yarn",
        f"its master did not come up within {within_s:g} s {since}: {waiting(report)}{earlier}",
        code="TARN-3141",
        where=application_id,
        next_step=log if granted else room,
    )


def unheard_start(name: str, application_id: str, error: Exception) -> TimedOutError:
    """Return the error for a start with an unknown result."""
    return TimedOutError(
        f"it was submitted, but YARN does not say whether its master came up ({error}); it was "
        "left alone",
        where=application_id,
        next_step=f"`tarn status -c {name}` looks again; "
        f"`yarn application -kill {application_id}` ends it",
    )


def not_ended(application_id: str, verdict: LaunchError, error: Exception) -> LaunchError:
    """Return *verdict* with the note that the application may still run."""
    return LaunchError(
        "yarn",
        f"{verdict.found}; ending it failed, too ({error})",
        code=verdict.code,
        where=application_id,
        next_step=f"`yarn application -kill {application_id}` ends it if it still runs. "
        f"{verdict.next_step}",
    )


def no_log(ref: ClusterRef, instance_id: str) -> NotFoundError:
    """Return the error for a log that YARN does not have."""
    return NotFoundError(
        f"{ref.name} has no log of '{instance_id or 'the master'}'",
        where=ref.application_id or "",
        next_step="The log of a running container is on its node: can this machine reach the "
        "NodeManager's web page? YARN keeps the logs of ended containers only with "
        "yarn.log-aggregation-enable, for as long as yarn.log-aggregation.retain-seconds "
        "says.",
    )
