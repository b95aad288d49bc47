"""Ranger's policy engine in the process's JVM: the only file that knows its classes.

Seen with Ranger 2.9.0. Its jars clash with Hadoop's, so they live in an island. Two rules are not
to be read anywhere: ``init`` needs the island as the thread's context loader, and a second
``init`` in one island silently audits nothing. So an engine is opened once, and a new one is
a new island, of which nothing is given back.
"""

import contextlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tarn.errors import LaunchError
from tarn.java import Fault, IsolatedClassLoader, describe, load, mask, throwable
from tarn_plugins.authorizer.ranger.admin_contact import AdminContact
from tarn_plugins.authorizer.ranger.settings import SERVICE_TYPE

__all__ = ["AccessRequest", "RangerDecision", "RangerEngine", "RangerUser"]

_PLUGIN = "org.apache.ranger.plugin"
_AUDIT = "org.apache.ranger.audit.provider.AuditProviderFactory"
_ADMIN = "org.apache.ranger.admin.client.RangerAdmin"
_STATUS = re.compile(r'(?:httpStatusCode"?|Response status|response)\s*[:=]\s*"?(\d{3})')
_ANSWERED = "Ranger Admin answered HTTP {}"
_NO_SERVICE = f"{_PLUGIN}.util.RangerServiceNotFoundException"
_NULL = "Received NULL response"
_PAUSE_S = 0.001
_MOST_WAITING = 1000
"""Audits that may wait for their destination: as many are written in some 20 milliseconds."""
_RELAX_S = 0.5
"""So long a decision waits for a destination that does not keep up. Then it is given: Ranger holds
a million audits more."""


@attrs.frozen
class RangerUser:
    """Whose right is asked about."""

    user: str
    groups: frozenset[str] = frozenset()


@attrs.frozen
class AccessRequest:
    """May somebody do *access* to the *resource* of a kind (``model``, ``cluster``)?"""

    kind: str
    resource: str
    access: str


@attrs.frozen
class RangerDecision:
    """The engine's answer; *policy* is -1 where none decided."""

    allowed: bool
    policy: int


class RangerEngine:
    """One engine: opened when it is made, which takes seconds while Ranger Admin is away.

    `decide` from any thread, best from ones that stay: each that ever called Java is one of
    Java's for good.

    Args:
        conf: Directory with the master's own configuration.
        rest: The site's directory and Ranger's jars.
        app_id: What the engine calls this program.
        audit: Write each decision.
        heard: Told how each download went.

    Raises:
        LaunchError: A class is missing, or audits would be lost.
        Exception: Everything that Java throws.
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
            # before any thread of Ranger's: whatever is missing leaves nothing running
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
        """Return the version of the policies; -1: there are none."""
        return int(self._plugin.getPoliciesVersion())

    def decide(
        self, asker: RangerUser, questions: Sequence[AccessRequest]
    ) -> tuple[RangerDecision | None, ...]:
        """Return an answer to each question; None: the engine has no policies to decide by."""
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
        """Write what audits are waiting, and end Ranger's threads; *within_s* seconds are waited.

        What a slow destination has not taken by then is in its spool, or lost.
        """
        self._closed.set()
        worker = threading.Thread(
            target=self._close, args=(within_s,), name="ranger-close", daemon=True
        )
        worker.start()
        worker.join(within_s)

    def _written(self, most: int, within_s: float) -> None:
        """Wait until at most so many audits wait; no longer than *within_s* seconds."""
        size, pause = getattr(self._queue, "size", None), threading.Event()
        for _ in range(int(within_s / _PAUSE_S)):
            if size is None or size() <= most:
                return
            pause.wait(_PAUSE_S)

    def _close(self, within_s: float) -> None:
        with contextlib.suppress(throwable()):
            # `shutdown` empties only what stands behind the first queue
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
    """Stands between the engine and its client of Ranger Admin, to hear how downloads go.

    The client tells of no connection by an exception, and of a refusal only in its log: to its
    caller that looks like "nothing new". So it is listened to while it asks.
    """

    def __init__(self, heard: AdminContact) -> None:
        self._heard = heard
        self._complaint = ""

    def methods(self, client: Any) -> Mapping[str, Callable[..., Any]]:
        """Return the methods of the client's interface that the engine of a plugin calls."""

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
        """Take a line of the client's log, of the level WARN or above."""
        if str(event.getLevel()) in ("WARN", "ERROR", "FATAL"):
            text = mask(str(event.getRenderedMessage()))
            if "policies" in text:
                self._complaint = _said(text)


def _thrown(fault: Fault) -> str:
    """Return what an exception of the client means. Pure."""
    if fault.is_a(_NO_SERVICE):
        return "Ranger Admin has no such service"
    text = fault.root or fault.message or str(fault)
    status = _STATUS.search(text)
    return _ANSWERED.format(status[1]) if status else f"Ranger Admin cannot be reached: {text}"


def _said(text: str) -> str:
    """Return what a line of the client's log means. Pure."""
    status = _STATUS.search(text)
    if status:
        return _ANSWERED.format(status[1])
    return "Ranger Admin did not answer" if _NULL in text else text[:200]


def _log(island: IsolatedClassLoader, conf: Path, downloads: _Downloads) -> None:
    """Have the island log as its configuration says, and listen to the client of Ranger Admin.

    A JVM that Hadoop started may have been told of another configuration for the whole process
    (``log4j.configuration``), so it is not left to be found. Where the site's jars bring another
    logging, nothing is done: then a refusal by Ranger Admin does not show that policies are stale.
    """
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
    """Refuse jars that silently lose audits to a log: no slf4j, or two that differ.

    Raises:
        LaunchError: There are such.
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
