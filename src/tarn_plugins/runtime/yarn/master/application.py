"""Build the runtime and the state store of a master, with their connections to Hadoop."""

import functools
import json
import logging
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn.domain import ProxyRule
from tarn.errors import LaunchError
from tarn.interfaces import MasterContext, Runtime, StateStore, UserDirectory
from tarn.java import load
from tarn.plain.structure import from_record
from tarn_plugins.runtime.yarn import YarnSettings, keytab
from tarn_plugins.runtime.yarn.container import application_id, master_jvm
from tarn_plugins.runtime.yarn.hadoop import configuration, credentials, login, web
from tarn_plugins.runtime.yarn.hadoop.clients import (
    HadoopNodeManagers,
    HadoopResourceManager,
    Handles,
)
from tarn_plugins.runtime.yarn.hadoop.files import HadoopFiles
from tarn_plugins.runtime.yarn.hadoop.login import HadoopNames
from tarn_plugins.runtime.yarn.hadoop.web import NodeLogs
from tarn_plugins.runtime.yarn.keytab import KDC_SILENT, Renewal
from tarn_plugins.runtime.yarn.launch.launcher import StagedLauncher
from tarn_plugins.runtime.yarn.master.recovery import file_name
from tarn_plugins.runtime.yarn.master.runtime import YarnRuntime, YarnServices
from tarn_plugins.runtime.yarn.master.state import ExpiringFiles, HadoopStateStore
from tarn_plugins.runtime.yarn.messages import Files, Submitted
from tarn_plugins.runtime.yarn.staging import Layout

__all__ = ["names", "proxy", "runtime", "state_store", "unpack"]

log = logging.getLogger(__name__)

# How long a starting master waits for a silent KDC; clients wait twice as long for the master.
KDC_WAIT_S = 30.0
_KDC_RETRY_S = 2.0
_SUBMITTED = "yarn.json"
_PRIVATE = 0o600


def unpack(directory: Path, environ: Mapping[str, str]) -> None:
    """Start the JVM, and write the files in the submitted credentials to *directory*.

    Raises:
        LaunchError: Java or Hadoop is missing on the node, or too old; or the credentials contain
            no files.
    """
    try:
        master_jvm(environ).start(environ)
    except LaunchError as error:
        raise _of_the_node(error, environ.get("NM_HOST", "")) from error
    files = credentials.secret_files()
    if _SUBMITTED not in files:
        raise LaunchError(
            "yarn",
            "the container's credentials contain no files of a cluster",
            next_step="Start the cluster with `tarn up`, which submits these files.",
        )
    for name, data in files.items():
        # Only its last part, so that no name of the credentials leads out of the directory.
        path = directory / Path(name).name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)


def _of_the_node(error: LaunchError, host: str) -> LaunchError:
    """Return *error* with the name of the node, for readers on other machines."""
    step = error.next_step
    if error.code == "TARN-3121":
        step = (
            "Have Hadoop on the nodes updated, or set runtime.options.hadoop_home to a newer "
            "client that every node has."
        )
    return LaunchError(
        "yarn",
        error.found,
        code=error.code,
        where=f"node {host}" if host else error.where,
        right=error.right,
        next_step=step,
    )


def runtime(settings: YarnSettings, context: MasterContext) -> Runtime:
    """Return the runtime for a real YARN; it connects to YARN when it starts."""
    submitted = _submitted(context.directory)
    # First of all, since an open connection to Hadoop keeps the user that it was opened by.
    renewal = _renewal(context.directory)
    conf, handles, files = _conf(), Handles(), _files(submitted, context)
    if context.epoch.attempt > 1:  # the first attempt was submitted a moment ago
        # The RM may have been reconfigured since the submission.
        was = web.Placement(submitted.placement, submitted.placement_reason)
        now = web.placement_now(web.Web(web.bases(conf)), was)
        submitted = attrs.evolve(submitted, placement=now.mode, placement_reason=now.reason)
    launcher = StagedLauncher(
        files=files,
        layout=Layout(submitted.staging),
        python=submitted.python,
        docker=settings.docker,
        name_of=file_name,
        log_bytes=context.spec.log.triton_max_size_mib * 2**20,
        packed=submitted.environment,
        tokens=functools.partial(_new_tokens, submitted) if renewal.works else None,
    )
    services = YarnServices(
        rm=HadoopResourceManager(handles, conf, submitted.placement, str(context.epoch)),
        nodes=HadoopNodeManagers(handles, conf),
        files=files,
        launcher=launcher,
        spec_hash=context.spec_hash,
        application_id=application_id(context.environ),
        logs=NodeLogs(web.Web(()).get, web.scheme(conf)).tail,
        renewal=renewal,
    )
    return YarnRuntime(context, settings, submitted, services)


def state_store(_settings: YarnSettings, context: MasterContext) -> StateStore:
    """Return the store of the masters' state, on the Hadoop file system."""
    submitted = _submitted(context.directory)
    return HadoopStateStore(_files(submitted, context), Layout(submitted.staging).private)


def proxy(directory: Path, environ: Mapping[str, str]) -> ProxyRule:
    """Return the rule by which this master trusts the RM's web proxies to name users."""
    # YARN sets ``USER`` to the submitter, and ``APPLICATION_WEB_PROXY_BASE`` to the path at which
    # its proxy shows this master (``ApplicationConstants``).
    submitted = _submitted(directory)
    return ProxyRule(
        frozenset(submitted.proxies),
        environ.get("USER", ""),
        proves=submitted.proxy_proves,
        base=environ.get("APPLICATION_WEB_PROXY_BASE", ""),
    )


def names() -> UserDirectory:
    """Return the directory of Hadoop's users; it needs the JVM, which `unpack` starts."""
    return HadoopNames(_conf())


@functools.cache
def _conf() -> Any:
    # Read once, for the runtime and the state store.
    return configuration()


@functools.cache
def _renewal(directory: Path) -> Renewal:
    """Log in with the submitted keytab, once for the process, and return the result."""
    # A failure is not fatal: the master works for as long as its tokens last.
    principal, path = _submitted(directory).principal, directory / keytab.NAME
    if not principal or not path.is_file():
        return Renewal()
    users = load("org.apache.hadoop.security.UserGroupInformation")
    users.setConfiguration(_conf())
    give_up_s = time.monotonic() + KDC_WAIT_S
    while True:
        try:
            login.keep_on(principal, path)
        except LaunchError as error:
            if error.code == KDC_SILENT and time.monotonic() < give_up_s:
                threading.Event().wait(_KDC_RETRY_S)
                continue
            log.warning("the master continues without its keytab: %s", error)
            return Renewal(principal, error.found)
        log.info("logged in to Hadoop as %s", principal)
        return Renewal(principal)


def _new_tokens(submitted: Submitted) -> bytes:
    """Return the credentials of another container; block until each file system has answered.

    Raises:
        ProviderError: The log-in or a file system fails.
    """
    login.stay_logged_in()
    return credentials.packed(credentials.for_containers(_conf(), submitted.file_systems))


def _files(submitted: Submitted, context: MasterContext) -> Files:
    ends_at = None if _renewal(context.directory).works else submitted.tokens_end_at
    return ExpiringFiles(HadoopFiles(_conf()), ends_at, context.clock.at)


def _submitted(directory: Path) -> Submitted:
    path = directory / _SUBMITTED
    try:
        return from_record(Submitted, json.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise LaunchError(
            "yarn",
            "this file of the submission cannot be read",
            where=str(path),
            next_step="Submit the cluster again: `tarn down`, then `tarn up`.",
        ) from error
