"""Submit a master to YARN, with the files of this machine; in the process that holds the JVM.

A repository that only the client can read is uploaded to where the nodes read it::

    <staging>/.models/<digest>/<model>/<version>/<file>     0600

The digest is that of the content. So files never change there, all clusters of the user share them,
and an interrupted upload continues where it ended. Names of clusters have no dot.
"""

import base64
import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tarn.errors import LaunchError, NotFoundError, StorageError
from tarn.interfaces import Staged
from tarn.java import jvm
from tarn.plain.master_files import CLIENT_CA, SPEC, STAGED, TEST_REQUESTS, TLS_CA
from tarn.plain.structure import to_record
from tarn.triton.repository import listing
from tarn_plugins.runtime.yarn import class_archives, keytab, tokens
from tarn_plugins.runtime.yarn.client.cluster import Hadoop
from tarn_plugins.runtime.yarn.client.reports import APPLICATION_TYPE, cluster_tag
from tarn_plugins.runtime.yarn.environment import resource
from tarn_plugins.runtime.yarn.hadoop import credentials, web
from tarn_plugins.runtime.yarn.hadoop.records import for_master, launch_context
from tarn_plugins.runtime.yarn.keytab import Renewal
from tarn_plugins.runtime.yarn.launch import launch_file
from tarn_plugins.runtime.yarn.messages import (
    ClientFiles,
    ContainerLaunch,
    FileEntry,
    LocalFile,
    Shape,
    Submitted,
)
from tarn_plugins.runtime.yarn.staging import FETCHED, Layout, Staging

__all__ = ["MasterRequest", "submit", "upload"]

# The directory's name in the user's staging directory, next to the clusters'.
SHELF = ".models"
# Of the staging directory, through which everybody must pass to the clusters' public files.
_PASSABLE = 0o755
# Attempts that failed longer ago no longer count against ``master.max_attempts``.
VALIDITY_MS = 10 * 60 * 1000
# Logs that YARN aggregates from running containers. Not those still being written: a NodeManager
# deletes an aggregated log, and all later output of its program would be lost (seen).
_ROTATED = r".*std(err|out).*\.\d+"
_RECORDS = "org.apache.hadoop.yarn.api.records"
# The master's user on a Hadoop without Kerberos, where a node's LinuxContainerExecutor by default
# runs it as ``nobody``. With Kerberos, Hadoop ignores the variable.
_USER = "HADOOP_USER_NAME"
# Of the master's private files, those that contain no secret.
_NO_SECRETS = frozenset({SPEC, STAGED, TEST_REQUESTS, TLS_CA, CLIENT_CA, "yarn.json"})
_IN_CLEAR = (
    "Hadoop's own protocol is not encrypted here (hadoop.rpc.protection is not privacy): "
    "everybody who can read this network sees the keytab on its way to the ResourceManager and "
    "to the master's node"
)


@attrs.frozen
class MasterRequest:
    """The master to submit, as JSON values."""

    name: str
    queue: str
    priority: int
    memory_mib: int
    vcores: int
    max_attempts: int
    node_label: str
    python: str
    """Interpreter on the nodes."""
    argv: Sequence[str]
    """The master's command."""
    environ: Mapping[str, str]
    """The master's environment, free of secrets."""
    files: Mapping[str, str] = attrs.field(repr=False)
    """Name -> content (base64) of the master's private files."""
    file_systems: Sequence[str]
    """URIs whose delegation tokens the cluster needs."""
    environment: str = ""
    """URI of the packed environment with *python*, or empty."""
    log_bytes: int = 64 * 2**20
    """Size beyond which a log of the master is rotated."""


def submit(
    hadoop: Hadoop, staging: Staging, wanted: MasterRequest, archive: Path | None = None
) -> dict[str, Any]:
    """Submit a master, and return the application's id and notes for the user.

    *archive* has the classes of this machine's Hadoop.

    Raises:
        RefusedError: Another application has the cluster's name (TARN-2103).
        TarnError: It was not submitted, and its files were removed.
    """
    context = hadoop.client.createApplication().getApplicationSubmissionContext()
    application_id = str(context.getApplicationId())
    staging.take(wanted.name, application_id)
    try:
        used = (staging.layout.root, "/", *wanted.file_systems)  # "/": where YARN keeps logs
        collected = credentials.collect(hadoop.conf, used, {})
        ends_at = credentials.ends_at(collected)
        submitted = to_record(_submitted(hadoop, wanted, used, ends_at))
        secrets = {name: base64.b64decode(data) for name, data in wanted.files.items()}
        secrets |= {keytab.NAME: hadoop.keytab} if hadoop.keytab else {}
        secrets["yarn.json"] = json.dumps(submitted).encode()
        entries = _publish(hadoop, staging, wanted, secrets)
        collected.addAll(credentials.collect(hadoop.conf, (), secrets))
        files = list(_places(entries))
        if wanted.environment:
            files.append(resource(hadoop.files.entry(wanted.environment)))
        elif archive is not None:  # a packed environment may have a Java of its own
            files += class_archives.resources(archive, hadoop.staging, hadoop.files, hadoop.user)
        _hand_over(hadoop, context, wanted, files, collected)
    except BaseException:
        with contextlib.suppress(Exception):  # the first error matters more
            staging.remove(application_id)
        raise
    notes = [] if ends_at is None else [tokens.note(ends_at, Renewal(hadoop.principal))]
    notes += [_IN_CLEAR] if hadoop.keytab and not hadoop.private else []
    notes += [] if _public(entries) else [_not_public(staging.layout, ends_at)]
    return {"application_id": application_id, "notes": notes}


def upload(staged: Staged, staging: str, files: ClientFiles) -> Staged:
    """Upload the local copy *staged* into *staging*, and return it for the nodes to localize.

    It may take long, in the caller's thread.

    Raises:
        StorageError: The copy was removed meanwhile, or its storage has no digest (final).
        ProviderError: The file system did not answer, or has no space.
    """
    if not staged.digest:
        raise _not_uploaded(
            staged,
            "its storage does not report a digest, so an earlier copy could not be recognised",
        )
    local, target = Path(staged.location), f"{staging}/{SHELF}/{staged.digest}"
    there = _uploaded(files, target)
    try:
        # A path of an empty version ends with a slash; the container makes that directory.
        sizes = {p: (local / p).stat().st_size for p in listing(local) if not p.endswith("/")}
    except OSError as error:
        raise _not_uploaded(staged, f"cannot be read ({error.strerror})") from error
    files.directory(staging, _PASSABLE)  # or the first upload would make it private
    for path, size in sizes.items():
        # A path below a digest has only one content, so its size shows whether it is complete.
        if there.get(path) != size:
            files.upload(local / path, f"{target}/{path}", mode=0o600)
    return Staged(target, "localize", digest=staged.digest, bytes=sum(sizes.values()))


def _submitted(
    hadoop: Hadoop, wanted: MasterRequest, used: tuple[str, ...], tokens_end_at: float | None
) -> Submitted:
    placement = web.placement(hadoop.web, federated=hadoop.federated)
    proxies = hadoop.proxies()
    found = web.addresses(proxies)
    # A request from a loopback address may come from any process on the master's node, so it proves
    # nothing, also if only one proxy of several has such an address.
    apart = bool(found) and not any(map(web.loopback, found))
    return Submitted(
        staging=used[0],
        python=wanted.python,
        environment=wanted.environment,
        placement=placement.mode,
        placement_reason=placement.reason,
        tokens_end_at=tokens_end_at,
        proxies=found,
        proxy_proves=apart and all(hadoop.web.proves(url) for url in proxies),
        principal=hadoop.principal,
        file_systems=used,
    )


def _publish(
    hadoop: Hadoop, staging: Staging, wanted: MasterRequest, secrets: Mapping[str, bytes]
) -> tuple[FileEntry, ...]:
    """Write the master's public files, and the owner's copies of private ones."""
    environ = {**wanted.environ, _USER: hadoop.user}
    logs = launch_file.LogFiles(wanted.log_bytes)
    content = {
        launch_file.RUN_NAME: launch_file.RUN,
        "master": launch_file.encode(wanted.argv, environ, logs=logs),
    }
    # No secret may reach a public file, even if a user wrote it into arguments or environment.
    for name in secrets.keys() - _NO_SECRETS:
        secret = secrets[name].strip()
        if secret and any(secret in data for data in content.values()):
            raise LaunchError("yarn", f"{name} would be readable by everybody; nothing was sent")
    return staging.fill(content, {name: secrets[name] for name in FETCHED if name in secrets})


def _public(entries: Iterable[FileEntry]) -> bool:
    """Return whether NodeManagers can fetch the master's own files as themselves."""
    return all(entry.public for entry in entries)


def _places(entries: tuple[FileEntry, ...]) -> tuple[LocalFile, ...]:
    """Return the master's own files, with their places in its container."""
    # NodeManagers fetch public files as themselves, which works without tokens.
    places = {launch_file.RUN_NAME: launch_file.SCRIPT, "master": launch_file.LAUNCH}
    public = _public(entries)
    return tuple(
        LocalFile(
            places[e.path], e.uri, e.bytes, e.modified_ms, public=public, application=not public
        )
        for e in entries
        if e.path in places
    )


def _hand_over(
    hadoop: Hadoop, context: Any, wanted: MasterRequest, files: Sequence[LocalFile], collected: Any
) -> None:
    """Submit the application, and kill it if that failed."""
    try:
        _submit(hadoop, context, wanted, files, collected)
    except jvm.throwable() as error:
        application_id = str(context.getApplicationId())
        # It may run, if the RM accepted it and only the answer was lost.
        with contextlib.suppress(Exception):
            hadoop.end(application_id, "its submission failed")
        raise hadoop.refused(application_id, error) from None


def _submit(
    hadoop: Hadoop, context: Any, wanted: MasterRequest, files: Sequence[LocalFile], collected: Any
) -> None:
    """Fill the ``ApplicationSubmissionContext``, and hand it to the ResourceManager.

    *files* are localized into the container, and contain no secret. *collected* are the
    application's ``Credentials``.
    """
    context.setApplicationName(wanted.name)
    context.setApplicationType(APPLICATION_TYPE)
    context.setApplicationTags(
        jvm.load("java.util.HashSet")(["tarn", cluster_tag(hadoop.user, wanted.name)])
    )
    context.setQueue(wanted.queue)
    context.setPriority(_record("Priority").newInstance(wanted.priority))
    context.setResource(_record("Resource").newInstance(wanted.memory_mib, wanted.vcores))
    context.setMaxAppAttempts(wanted.max_attempts)
    context.setAttemptFailuresValidityInterval(VALIDITY_MS)
    # Instances outlive their master, and its next attempt adopts them.
    context.setKeepContainersAcrossApplicationAttempts(True)
    if wanted.node_label:
        # The label is only for the master's container; instances have their own.
        shape = Shape(wanted.memory_mib, wanted.vcores, node_label=wanted.node_label)
        context.setAMContainerResourceRequest(for_master(shape))
    # (include, exclude, rolled include, rolled exclude): all logs at the end, rotated ones before.
    context.setLogAggregationContext(
        _record("LogAggregationContext").newInstance(".*", "", _ROTATED, "")
    )
    launch = ContainerLaunch(  # the command is a constant, without values of users
        launch_file.MASTER_COMMAND,
        {"MALLOC_ARENA_MAX": "2"},
        tuple(files),
        credentials.packed(collected),
    )
    context.setAMContainerSpec(launch_context(launch))
    hadoop.client.submitApplication(context)


def _record(name: str) -> Any:
    return jvm.load(f"{_RECORDS}.{name}")


def _not_public(layout: Layout, tokens_end_at: float | None) -> str:
    if tokens_end_at is None:
        until = " once its delegation tokens have ended, on a cluster with Kerberos"
    else:
        until = f" after {tokens.day(tokens_end_at)}, when no token can be renewed any more"
    return (
        f"not everybody can read {layout.public} through all its parent directories, so a lost "
        f"master cannot be started again{until}; set runtime.options.staging to a shared "
        "directory (mode 1777) whose parents everybody may pass"
    )


def _uploaded(files: ClientFiles, target: str) -> dict[str, int]:
    try:
        return {entry.path: entry.bytes for entry in files.listing(target, deep=True)}
    except NotFoundError:
        return {}


def _not_uploaded(staged: Staged, found: str) -> StorageError:
    return StorageError(
        "yarn",
        found,
        where=staged.location,
        next_step="Try again, or put the repository where the nodes read it: hdfs dfs -put.",
    )
