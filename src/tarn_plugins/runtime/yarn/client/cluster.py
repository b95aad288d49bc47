"""A client's access to YARN and HDFS through Java; results are Python values."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tarn.errors import LaunchError, NotFoundError, ProviderError, TarnError
from tarn.interfaces import Finding
from tarn.java import OLDEST_HADOOP, describe, dotted, hadoop_numbers, jvm, mask
from tarn.triton.lint import Stubs
from tarn_plugins.runtime.yarn.client.checks import from_error
from tarn_plugins.runtime.yarn.client.reports import ApplicationAttempt, ApplicationReport, alive
from tarn_plugins.runtime.yarn.hadoop import configuration, login, web
from tarn_plugins.runtime.yarn.hadoop.files import DENIED, HadoopFiles
from tarn_plugins.runtime.yarn.hadoop.records import amounts
from tarn_plugins.runtime.yarn.launch import repository, shared_memory
from tarn_plugins.runtime.yarn.staging import HOME
from tarn_plugins.runtime.yarn.survey import Queue, YarnNode, YarnOverview

__all__ = ["CLUSTER_INFO", "Hadoop", "manager_version"]

# Path of the page with a ResourceManager's version.
CLUSTER_INFO = "ws/v1/cluster/info"

_YARN = "org.apache.hadoop.yarn"
_UNKNOWN = f"{_YARN}.exceptions.ApplicationNotFoundException"
_UGI = "org.apache.hadoop.security.UserGroupInformation"
_PATIENCE = {
    # About 15 s, with the retries of the connection itself, since a person waits for a client.
    # Hadoop's default is 15 minutes.
    "yarn.resourcemanager.connect.max-wait.ms": "8000",
    "yarn.client.failover-max-attempts": "8",
    "ipc.client.connect.max.retries": "1",
    "ipc.client.connect.timeout": "5000",
    "ipc.client.connect.max.retries.on.timeouts": "1",
    # How often it looks whether the RM has accepted an application; 200 by default.
    "yarn.client.application-client-protocol.poll-interval-ms": "20",
    # The RM's resource types count, not those of this machine's file.
    "yarn.client.load.resource-types.from-server": "true",
}


class Hadoop:
    """A ``YarnClient``, a configuration, and a file system. For one thread; needs the JVM.

    Args:
        staging: Directory of all clusters; None means ``.tarn`` in the user's home directory.
        environ: The client's.
        kerberos: Principal and path of a keytab; None means the user's ticket.

    Raises:
        LaunchError: Hadoop requires Kerberos, and there is no ticket (TARN-3132, TARN-3763,
            TARN-3764), or the log-in by the keytab failed (TARN-3761 to TARN-3766).
    """

    def __init__(
        self,
        staging: str | None,
        environ: Mapping[str, str],
        kerberos: tuple[str, str] | None = None,
    ) -> None:
        self.conf = configuration(_PATIENCE)
        ugi = jvm.load(_UGI)
        ugi.setConfiguration(self.conf)
        self.keytab = b""
        """A keytab with only the keys of the principal; empty: the user has a ticket."""
        if kerberos is None:
            login.require_ticket(environ)
        else:
            self.keytab = login.by_keytab(kerberos[0], Path(kerberos[1]))
        user = ugi.getLoginUser()
        self.user = str(user.getShortUserName())
        self.principal = str(user.getUserName()) if kerberos else ""
        """The principal of the keytab, with its realm."""
        self.files = HadoopFiles(self.conf)
        self._staging = staging
        self._client: Any = None
        self.web = web.Web(web.bases(self.conf))

    @property
    def client(self) -> Any:
        """The ``YarnClient``, started at its first use, since that contacts the RM.

        Raises:
            TarnError: The RM gave no answer; the next use tries again.
        """
        if self._client is None:
            client = jvm.load(f"{_YARN}.client.api.YarnClient").createYarnClient()
            try:
                client.init(self.conf)
                client.start()
            except jvm.throwable() as error:
                raise self.failed(error) from None
            self._client = client
        return self._client

    @property
    def staging(self) -> str:
        """URI of the directory of all clusters."""
        return self.files.qualified(self._staging or f"{self.files.home()}/{HOME}")

    @property
    def federated(self) -> bool:
        """Whether this client talks to a router in front of several YARNs."""
        return bool(self.conf.getBoolean("yarn.federation.enabled", False))  # noqa: FBT003 (Java)

    @property
    def private(self) -> bool:
        """Whether Hadoop's own protocol (RPC) is encrypted."""
        return web.conf_property(self.conf, "hadoop.rpc.protection").lower() == "privacy"

    def proxies(self) -> tuple[str, ...]:
        """Return the base URLs of YARN's web proxies, by default the RMs."""
        own = web.conf_property(self.conf, "yarn.web-proxy.address")
        return (f"{web.scheme(self.conf)}://{own}",) if own else self.web.bases

    def report(self, application_id: str, *, attempts: bool = False) -> ApplicationReport | None:
        """Return one application; None if YARN does not know it."""
        java_id = _java_id(application_id)
        try:
            found = self.client.getApplicationReport(java_id)
            tries = self.client.getApplicationAttempts(java_id) if attempts else ()
        except jvm.throwable() as error:
            if describe(error).is_a(_UNKNOWN):
                return None
            raise self.failed(error) from None
        return self._report(found, tuple(_attempt(each) for each in tries))

    def tagged(self, kind: str, tag: str) -> tuple[ApplicationReport, ...]:
        """Return the applications of type *kind* with *tag*, alive or not."""
        java_set = jvm.load("java.util.HashSet")
        request = jvm.load(f"{_YARN}.api.protocolrecords.GetApplicationsRequest").newInstance(
            java_set([kind])
        )
        request.setApplicationTags(java_set([tag]))
        request.setUsers(java_set([self.user]))
        return tuple(self._report(each) for each in self.client.getApplications(request))

    def kill(self, application_id: str, why: str) -> None:
        """Ask the RM to end an application, with *why* in its diagnostics."""
        self.client.killApplication(_java_id(application_id), why)

    def end(self, application_id: str, why: str) -> None:
        """Ask the RM to end an application; an ended or unknown one is not an error."""
        report = self.report(application_id)
        if report is not None and alive(report):
            self.kill(application_id, why)

    def overview(self, uri: str | None, serve: Sequence[str]) -> YarnOverview:
        """Return an overview for checks; *uri* is a repository that the nodes fetch.

        Raises:
            LaunchError: The ResourceManager is too old (TARN-3121).
        """
        self.refuse_old()
        # Only with the id of a new application, YARN tells a client how large a container can be.
        response = self.client.createApplication().getNewApplicationResponse()
        maximum = amounts(response.getMaximumResourceCapability())
        cap = self.web.property("yarn.resourcemanager.am.global.max-attempts")
        cap = cap or self.web.property("yarn.resourcemanager.am.max-attempts")
        staging, problem = self.staging_problem()
        placed = web.placement(self.web, federated=self.federated)
        labels = {
            str(label.getName()): bool(label.isExclusive())
            for label in self.client.getClusterNodeLabels()
        }
        wrong = self.repository(uri, serve)[0] if uri else ()
        return YarnOverview(
            user=self.user,
            queues=self._queues(),
            maximum=maximum,
            labels=tuple(sorted(labels)),
            lent=tuple(sorted(name for name, exclusive in labels.items() if not exclusive)),
            nodes=tuple(map(_node, self.client.getNodeReports())),
            am_max_attempts=int(cap) if cap and cap.isdigit() else None,
            staging=staging,
            staging_problem=problem,
            placement=placed.mode,
            placement_reason=placed.reason,
            repository=wrong,
            python=self._python(uri) if uri and not wrong else (),
        )

    def refuse_old(self) -> None:
        """Refuse a ResourceManager that is too old.

        Raises:
            LaunchError: It is too old (TARN-3121).
        """
        own = jvm.load("org.apache.hadoop.util.VersionInfo").getVersion()
        manager = manager_version(self.web.rest(CLUSTER_INFO))
        refuse_old(manager, str(own), ", ".join(self.web.bases))

    def nodes(self) -> dict[str, str]:
        """Return host name -> ``host:port`` of the web server, for running NodeManagers."""
        running = jvm.load(f"{_YARN}.api.records.NodeState").RUNNING
        reports = self.client.getNodeReports([running])
        return {str(n.getNodeId().getHost()): str(n.getHttpAddress()) for n in reports}

    def failed(self, error: Any) -> TarnError:
        """Return the error for a Java exception of YARN."""
        fault = describe(error)
        if fault.is_a(
            "java.net.ConnectException",
            "java.net.UnknownHostException",
            "java.net.SocketTimeoutException",
            "java.net.NoRouteToHostException",
        ):
            return self.silent(f"does not answer: {fault}")
        return ProviderError("yarn", str(fault), retry_after_s=None)

    def silent(self, how: str) -> LaunchError:
        """Return the error for an RM that does not answer, perhaps due to a wrong address."""
        step = "Check HADOOP_CONF_DIR (it names the cluster), and that YARN is up."
        if self.conf.getResource("yarn-site.xml") is None:
            step = (
                "Set HADOOP_CONF_DIR to the directory with the cluster's yarn-site.xml: none "
                "was found, so Hadoop uses its defaults."
            )
        address = self.conf.get("yarn.resourcemanager.address")
        found = f"the ResourceManager at {address} {how}"
        return LaunchError("yarn", found, code="TARN-3130", next_step=step)

    def refused(self, application_id: str, error: Any) -> TarnError:
        """Return the error for a submission that the RM refused."""
        failed = self.failed(error)
        if failed.code != ProviderError.default_code:
            return failed
        message = str(error.getMessage() or "").partition("\n")[0]
        # YarnClient raises "Failed to submit <id> to YARN : <the RM's reason>".
        found = message.partition(" to YARN : ")[2] or str(describe(error))
        return LaunchError(
            "yarn",
            f"YARN refused the application: {mask(found)}",
            where=application_id,
            next_step="`tarn doctor` shows the existing queues, labels and limits",
        )

    def _report(
        self, found: Any, attempts: tuple[ApplicationAttempt, ...] = ()
    ) -> ApplicationReport:
        attempt, application_id = found.getCurrentApplicationAttemptId(), found.getApplicationId()
        host, port = str(found.getHost() or ""), int(found.getRpcPort())
        tracking, proxies = str(found.getTrackingUrl() or ""), self.proxies()
        if len(proxies) == 1:  # YARN's own URL often names localhost then
            tracking = f"{proxies[0]}/proxy/{application_id}/"
        return ApplicationReport(
            application_id=str(application_id),
            state=str(found.getYarnApplicationState()),
            user=str(found.getUser()),
            queue=str(found.getQueue()),
            final_status=str(found.getFinalApplicationStatus()),
            # Until a master has registered, YARN reports the host N/A and the port -1.
            host="" if host == "N/A" else host,
            port=max(0, port),
            tracking_url=tracking,
            own_url=str(found.getOriginalTrackingUrl() or ""),
            submitted_ms=int(found.getSubmitTime() or found.getStartTime()),
            finished_ms=int(found.getFinishTime()),
            # -1 before the first attempt
            attempt=1 if attempt is None else max(1, int(attempt.getAttemptId())),
            diagnostics=str(found.getDiagnostics() or ""),
            attempts=tuple(sorted(attempts, key=lambda each: each.number)),
        )

    def _queues(self) -> tuple[Queue, ...]:
        allowed = {
            str(info.getQueueName()): {str(acl) for acl in info.getUserAcls()}
            for info in self.client.getQueueAclsInfo()
        }
        found = leaves(self.client.getRootQueueInfos() or (), "root")
        return tuple(_queue(path, queue, allowed) for path, queue in found)

    def repository(self, uri: str, serve: Sequence[str]) -> tuple[tuple[Finding, ...], int | None]:
        """Return the problems of a repository on Hadoop, and its number of files."""
        try:
            entries = repository.look(self.files, uri)
        except ProviderError as error:
            return (_unread(from_error(error), self.user),), None
        found = repository.findings(entries, uri, serve)
        return found, None if entries is None else len(entries)

    def _python(self, uri: str) -> tuple[Stubs, ...]:
        """Return the Python models of a valid repository; none if it cannot be read."""
        try:
            entries = repository.look(self.files, uri)
            return shared_memory.stubs_in(entries or (), self.files.read)
        # `repository` has reported by now why it cannot be read.
        except (ProviderError, NotFoundError):
            return ()

    def staging_problem(self) -> tuple[str, str]:
        """Return the staging directory, and why nothing can be written there."""
        staging = self._staging or ".tarn"
        try:
            staging = self.staging
            path = jvm.load("org.apache.hadoop.fs.Path")(staging)
            fs = path.getFileSystem(self.conf)
            # The missing directories would be made in the nearest one that exists.
            while not fs.exists(path) and path.getParent() is not None:
                path = path.getParent()
            fs.access(path, jvm.load("org.apache.hadoop.fs.permission.FsAction").WRITE_EXECUTE)
        except ProviderError as error:
            return staging, error.found
        except jvm.throwable() as error:
            return staging, f"cannot be written: {describe(error)}"
        return staging, ""


def manager_version(info: Any) -> str:
    """Return Hadoop's version in the answer at `CLUSTER_INFO`, or ''."""
    # Not ``resourceManagerVersion``, which differs if the ResourceManager was built separately.
    told = info.get("clusterInfo") if isinstance(info, Mapping) else None
    return str(told.get("hadoopVersion") or "") if isinstance(told, Mapping) else ""


def refuse_old(manager: str, client: str, where: str) -> None:
    """Refuse *manager*, the version of a ResourceManager, if it is known and too old.

    Args:
        manager: As `manager_version` returns it.
        client: The version of this client.
        where: The ResourceManager's address.

    Raises:
        LaunchError: It is too old (TARN-3121).
    """
    numbers = hadoop_numbers(manager)
    if numbers is None or numbers >= OLDEST_HADOOP:
        return
    raise LaunchError(
        "yarn",
        f"the ResourceManager runs Hadoop {manager}, and this client is of Hadoop {client}",
        code="TARN-3121",
        where=where,
        right=f"{dotted(OLDEST_HADOOP)} or newer is needed on both",
        next_step="Set HADOOP_CONF_DIR to the configuration of a newer YARN, or have this one "
        "updated; a newer client alone does not help.",
    )


def _java_id(application_id: str) -> Any:
    return jvm.load(f"{_YARN}.api.records.ApplicationId").fromString(application_id)


def _unread(finding: Finding, user: str) -> Finding:
    """Return *finding*, with the command that permits *user* to read the whole repository."""
    # HDFS names only the first inode that denied access, and nothing below it.
    if finding.code != DENIED:
        return finding
    everything = shlex.quote(finding.where)
    below = (
        "If the files in the repository are closed as well: `hdfs dfs -setfacl -R -m "
        f"{shlex.quote(f'user:{user}:r-x')} {everything}`"
    )
    return attrs.evolve(finding, next_step=f"{finding.next_step}. {below}")


def _node(report: Any) -> YarnNode:
    labels = sorted(str(label) for label in report.getNodeLabels() or ())
    used = report.getUsed()
    return YarnNode(
        host=str(report.getNodeId().getHost()),
        state=str(report.getNodeState()),
        label=labels[0] if labels else "",
        total=amounts(report.getCapability()),
        used={} if used is None else amounts(used),
        web=str(report.getHttpAddress() or ""),
        health=str(report.getHealthReport() or ""),
    )


def leaves(queues: Iterable[Any], parent: str) -> Iterator[tuple[str, Any]]:
    """Yield the queues without children, each with its whole path."""
    # Before Hadoop 3.4, a queue tells only its own name, but that of a FairScheduler's queue is
    # already a whole path.
    for queue in queues:
        name = str(queue.getQueueName())
        path = name if name.startswith(f"{parent}.") else f"{parent}.{name}"
        children = list(queue.getChildQueues() or ())
        if children:
            yield from leaves(children, path)
        else:
            yield path, queue


def _queue(path: str, queue: Any, allowed: Mapping[str, set[str]]) -> Queue:
    acls = allowed.get(path, allowed.get(str(queue.getQueueName()), set()))
    return Queue(
        path,
        running=str(queue.getQueueState()) == "RUNNING",
        may_submit=not allowed or "SUBMIT_APPLICATIONS" in acls,
        labels=tuple(sorted(str(label) for label in queue.getAccessibleNodeLabels() or ())),
        default_label=str(queue.getDefaultNodeLabelExpression() or "").strip(),
    )


def _attempt(found: Any) -> ApplicationAttempt:
    container = found.getAMContainerId()
    return ApplicationAttempt(
        number=int(found.getApplicationAttemptId().getAttemptId()),
        state=str(found.getYarnApplicationAttemptState()),
        diagnostics=str(found.getDiagnostics() or ""),
        container_id="" if container is None else str(container),
    )
