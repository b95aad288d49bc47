"""Ranger's policy engine in the JVM of this process; only this module knows its classes.

Its jars clash with Hadoop's, so they have their own class loader. Two rules are not documented, but
were seen with Ranger 2.9.0: ``init`` needs this loader as the context loader of the thread, and
after a second ``init`` in one loader nothing is audited. So an engine is opened once, and a new one
needs a new loader, whose memory is never freed.
"""

import contextlib
import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tarn.domain import Principal
from tarn.errors import LaunchError
from tarn.interfaces import Clock
from tarn.java import Fault, IsolatedClassLoader, describe, load, mask, throwable
from tarn_plugins.authorizer.ranger.site import SERVICE_TYPE

__all__ = [
    "AccessRequest",
    "AdminContact",
    "RangerDecision",
    "RangerEngine",
    "Staleness",
]

_LOG = logging.getLogger("tarn.ranger")
# A download of many policies may take this long.
_SLACK_S = 60.0


@attrs.frozen
class Staleness:
    """The age of policies that could not be refreshed."""

    age_s: float | None
    """Seconds since they were confirmed; None if unknown."""
    why: str

    def __str__(self) -> str:
        """Render ``policies of 12 min ago: Connection refused``."""
        age = "of an unknown age" if self.age_s is None else f"of {_age(self.age_s)} ago"
        return f"policies {age}: {self.why}"


class AdminContact:
    """The state of the contact with Ranger Admin. Thread-safe.

    Args:
        clock: The master's clock.
        poll_s: The interval of polling.
        kept: A file that is touched at each answer, so that the next master knows the age of the
            cached policies.
    """

    def __init__(self, clock: Clock, poll_s: float, kept: Path) -> None:
        self._clock = clock
        self._late_s = 2 * poll_s + _SLACK_S
        self._kept = kept
        self._kept_at = _touched_at(kept)
        self._lock = threading.Lock()
        self._answered_s: float | None = None
        self._why = ""
        self._gone = False

    def answered(self) -> None:
        """Note that Ranger Admin confirmed the policies, or sent new ones."""
        with self._lock:
            before, self._why, self._gone = self._why, "", False
            self._answered_s = self._clock.now_s()
        with contextlib.suppress(OSError):  # then the next master shows an unknown age
            self._kept.touch(0o600)
        if before:
            _LOG.info("Ranger Admin answers again")

    def failed(self, why: str, *, gone: bool = False) -> None:
        """Note that a request failed; with *gone*, because the service no longer exists."""
        why = why or "Ranger Admin does not answer"
        with self._lock:
            before, self._why, self._gone = self._why, why, gone
        if not before:
            _LOG.warning("policies cannot be refreshed: %s", why)

    @property
    def why(self) -> str:
        """Why the last request failed; empty if it did not, or there was none."""
        with self._lock:
            return self._why

    @property
    def gone(self) -> bool:
        """Whether the service no longer exists; the engine would still use its policies."""
        with self._lock:
            return self._gone

    def stale(self) -> Staleness | None:
        """Return the age of the policies; None if they are up to date."""
        with self._lock:
            answered_s, why = self._answered_s, self._why
        age_s = None if answered_s is None else self._clock.now_s() - answered_s
        if age_s is None:
            kept_at = self._kept_at
            age_s = None if kept_at is None else max(0.0, self._clock.at() - kept_at)
            return Staleness(age_s, why or "Ranger Admin has not answered yet")
        if why:
            return Staleness(age_s, why)
        late = age_s > self._late_s
        return Staleness(age_s, "Ranger Admin has not answered since") if late else None


def _touched_at(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _age(seconds: float) -> str:
    """Return ``40 s``, ``12 min``, ``3 h`` or ``2 d``. Pure."""
    for size, unit, most in ((1, "s", 120), (60, "min", 120 * 60), (3600, "h", 48 * 3600)):
        if seconds < most:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds // 86400:.0f} d"


_PLUGIN = "org.apache.ranger.plugin"
_AUDIT = "org.apache.ranger.audit.provider.AuditProviderFactory"
_ADMIN = "org.apache.ranger.admin.client.RangerAdmin"
_STATUS = re.compile(r'(?:httpStatusCode"?|Response status|response)\s*[:=]\s*"?(\d{3})')
_ANSWERED = "Ranger Admin answered HTTP {}"
_NO_SERVICE = f"{_PLUGIN}.util.RangerServiceNotFoundException"
_NULL = "Received NULL response"
_PAUSE_S = 0.001
# Audits that may wait for their destination, which takes so many in some 20 milliseconds.
_MOST_WAITING = 1000
# How long a decision waits for a slow destination. Then it is made anyway: Ranger's queue holds a
# million audits.
_RELAX_S = 0.5


@attrs.frozen
class AccessRequest:
    """Whether *access* to the *resource* of a kind (``model``, ``cluster``) is allowed."""

    kind: str
    resource: str
    access: str


@attrs.frozen
class RangerDecision:
    """The engine's decision; *policy* is -1 if no policy decided."""

    allowed: bool
    policy: int


class RangerEngine:
    """Ranger's engine. Opening it takes seconds while Ranger Admin is away.

    `decide` may be called on any thread, but should be on few: a thread that has called Java stays
    attached to the JVM.

    Args:
        conf: The directory with the master's configuration.
        rest: The site's directory and Ranger's jars.
        app_id: The name of this program in Ranger.
        audit: Whether to write each decision to the audit.
        heard: Gets the result of each download.

    Raises:
        LaunchError: A class is missing, or audits would be lost.
        Exception: Any exception of Java.
    """

    def __init__(
        self, conf: Path, rest: Sequence[Path], app_id: str, heard: AdminContact, *, audit: bool
    ) -> None:
        self._closed = threading.Event()
        island = IsolatedClassLoader([conf, *rest])
        with island.context():
            downloads = _Downloads(heard)
            _log(island, conf, downloads)
            access = f"{_PLUGIN}.policyengine.RangerAccess"
            self._resource = island.load(f"{access}ResourceImpl")
            self._request = island.load(f"{access}RequestImpl")
            self._plugin = island.load(f"{_PLUGIN}.service.RangerBasePlugin")(SERVICE_TYPE, app_id)
            self._audits = island.load(_AUDIT)
            around = self._plugin.getPluginContext()
            client = around.createAdminClient(self._plugin.getConfig())
            around.setAdminClient(
                island.implemented(f"{_ADMIN}Client", downloads.methods(client)),
            )
            # Before Ranger starts threads: after an error here nothing keeps running.
            config = self._plugin.getConfig()
            if audit:
                _audible(island, config)
            handler = island.load(f"{_PLUGIN}.audit.RangerDefaultAuditHandler")
            self._plugin.init()
            if audit:
                self._plugin.setResultProcessor(handler(config))
        self._queue = self._audits.getInstance().getAuditProvider() if audit else None
        self._list, self._set = load("java.util.ArrayList"), load("java.util.HashSet")
        self._date = load("java.util.Date")

    def version(self) -> int:
        """Return the version of the policies; -1 if there are none."""
        return int(self._plugin.getPoliciesVersion())

    def decide(
        self, asker: Principal, questions: Sequence[AccessRequest]
    ) -> tuple[RangerDecision | None, ...]:
        """Return a decision for each question; None if there are no policies."""
        if self._closed.is_set():
            return (None,) * len(questions)
        self._written(_MOST_WAITING, _RELAX_S)
        groups = self._set()
        for group in asker.groups:
            groups.add(group)
        now = self._date()
        requests = [self._asked(one, asker.user, groups, now) for one in questions]
        if len(requests) == 1:
            return (_decision(self._plugin.isAccessAllowed(requests[0])),)
        several = self._list(len(requests))
        for request in requests:
            several.add(request)
        answers = self._plugin.isAccessAllowed(several)
        if answers is None:
            return (None,) * len(questions)
        return tuple(_decision(answer) for answer in answers)

    def close(self, within_s: float) -> None:
        """Write waiting audits and end Ranger's threads, for at most *within_s* seconds.

        Audits that a slow destination has not taken by then are in its spool, or lost.
        """
        self._closed.set()
        worker = threading.Thread(
            target=self._close, args=(within_s,), name="ranger-close", daemon=True
        )
        worker.start()
        worker.join(within_s)

    def _written(self, most: int, within_s: float) -> None:
        """Wait until at most *most* audits wait, for at most *within_s* seconds."""
        size, pause = getattr(self._queue, "size", None), threading.Event()
        for _ in range(int(within_s / _PAUSE_S)):
            if size is None or size() <= most:
                return
            pause.wait(_PAUSE_S)

    def _close(self, within_s: float) -> None:
        with contextlib.suppress(throwable()):
            # `shutdown` empties only the queues after the first one.
            self._written(0, within_s)
            self._audits.getInstance().shutdown()
        with contextlib.suppress(throwable()):
            self._plugin.cleanup()

    def _asked(self, question: AccessRequest, user: str, groups: Any, now: Any) -> Any:
        resource = self._resource()
        resource.setValue(question.kind, question.resource)
        request = self._request(resource, question.access, user, groups, None)
        request.setAccessTime(now)
        request.setAction(question.access)
        return request


class _Downloads:
    """A proxy between the engine and its client of Ranger Admin, to see how downloads go."""

    # The client raises an exception without a connection. But a refusal is only in its log, and
    # looks like "nothing new" to the caller; so its log is read during a request.

    def __init__(self, heard: AdminContact) -> None:
        self._heard = heard
        self._complaint = ""

    def methods(self, client: Any) -> Mapping[str, Callable[..., Any]]:
        """Return the methods of the client's interface that the engine calls."""

        def policies(known: Any, activated: Any) -> Any:
            self._complaint = ""
            try:
                found = client.getServicePoliciesIfUpdated(known, activated)
            except throwable() as error:
                fault = describe(error)
                self._heard.failed(_thrown(fault), gone=fault.is_a(_NO_SERVICE))
                raise
            if self._complaint:
                self._heard.failed(self._complaint)
            else:
                self._heard.answered()
            return found

        passed = {
            name: getattr(client, name)
            for name in (
                "init",
                "getRolesIfUpdated",
                "getServiceTagsIfUpdated",
                "getUserStoreIfUpdated",
                "getTagTypes",
                "getUserRoles",
            )
        }
        return {**passed, "getServicePoliciesIfUpdated": policies}

    def log(self, event: Any) -> None:
        """Handle a record of the client's log; below WARN it is ignored."""
        if str(event.getLevel()) in ("WARN", "ERROR", "FATAL"):
            text = mask(str(event.getRenderedMessage()))
            if "policies" in text:
                self._complaint = _said(text)


def _thrown(fault: Fault) -> str:
    """Return the meaning of an exception of the client. Pure."""
    if fault.is_a(_NO_SERVICE):
        return "Ranger Admin has no such service"
    text = fault.root or fault.message or str(fault)
    status = _STATUS.search(text)
    return _ANSWERED.format(status[1]) if status else f"Ranger Admin cannot be reached: {text}"


def _said(text: str) -> str:
    """Return the meaning of a line in the client's log. Pure."""
    status = _STATUS.search(text)
    if status:
        return _ANSWERED.format(status[1])
    return "Ranger Admin did not answer" if _NULL in text else text[:200]


def _log(island: IsolatedClassLoader, conf: Path, downloads: _Downloads) -> None:
    """Configure the logging of Ranger's jars, and read the log of the client of Ranger Admin."""
    # A JVM that was started for Hadoop may have another configuration for the whole process
    # (``log4j.configuration``), so ours is set explicitly. With another logging library among the
    # site's jars this fails, and a refusal by Ranger Admin does not show that policies are stale.
    with contextlib.suppress(Exception):
        mine = conf / "log4j.properties"
        if mine.is_file():
            island.load("org.apache.log4j.PropertyConfigurator").configure(str(mine))
        methods: dict[str, Callable[..., Any]] = {
            "doAppend": downloads.log,
            "getName": lambda: "tarn",
            "close": lambda: None,
            "requiresLayout": lambda: False,
        }
        appender = island.implemented("org.apache.log4j.Appender", methods)
        logger = island.load("org.apache.log4j.Logger").getLogger(f"{_ADMIN}RESTClient")
        logger.addAppender(appender)


def _audible(island: IsolatedClassLoader, config: Any) -> None:
    """Raise ``LaunchError`` if the jars would silently lose audits to a log.

    That happens without slf4j, or with two versions of it.
    """
    if str(config.get("xasecure.audit.destination.log4j")).strip().lower() != "true":
        return
    factory = str(island.load("org.slf4j.LoggerFactory").getILoggerFactory().getClass().getName())
    if "NOP" in factory:
        raise LaunchError(
            "ranger",
            "the slf4j among Ranger's jars writes nothing, so every audit record would be lost",
            code="TARN-3405",
            right="slf4j-api and slf4j-reload4j must have the same version, 1.7.36",
        )


def _decision(answer: Any) -> RangerDecision | None:
    return (
        None
        if answer is None
        else RangerDecision(bool(answer.getIsAllowed()), int(answer.getPolicyId()))
    )
