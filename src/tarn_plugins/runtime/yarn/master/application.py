"""The master's side of the runtime, put together: the only place that connects to Hadoop."""

import functools
import logging
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from cattrs.errors import BaseValidationError
from cattrs.preconf.json import make_converter

from tarn.domain import ProxyRule
from tarn.errors import LaunchError
from tarn.interfaces import MasterContext, Runtime, StateStore, UserDirectory
from tarn.java import hadoop_classpath, java_home, kerberos_options, load, start
from tarn_plugins.runtime.yarn import YarnSettings, keytab
from tarn_plugins.runtime.yarn.container import (
    HEAP_VARIABLE,
    JAVA_VARIABLE,
    application_id,
    heap_mib,
)
from tarn_plugins.runtime.yarn.hadoop import credentials, login, web
from tarn_plugins.runtime.yarn.hadoop.configuration import configuration
from tarn_plugins.runtime.yarn.hadoop.files import HadoopFiles
from tarn_plugins.runtime.yarn.hadoop.handles import Handles
from tarn_plugins.runtime.yarn.hadoop.names import HadoopNames
from tarn_plugins.runtime.yarn.hadoop.node_managers import HadoopNodeManagers
from tarn_plugins.runtime.yarn.hadoop.resource_manager import HadoopResourceManager
from tarn_plugins.runtime.yarn.keytab import KDC_SILENT, Renewal
from tarn_plugins.runtime.yarn.launch.launcher import StagedLauncher
from tarn_plugins.runtime.yarn.layout import Layout
from tarn_plugins.runtime.yarn.master.mortal_files import MortalFiles
from tarn_plugins.runtime.yarn.master.node_log import NodeLogs
from tarn_plugins.runtime.yarn.master.records import file_name
from tarn_plugins.runtime.yarn.master.runtime import YarnRuntime, YarnServices
from tarn_plugins.runtime.yarn.master.state import HadoopStateStore
from tarn_plugins.runtime.yarn.messages import Files, Submitted

__all__ = ["names", "proxy", "runtime", "state_store", "unpack"]

log = logging.getLogger(__name__)

KDC_PATIENCE_S = 30.0
"""For a KDC that does not answer when a master begins: whoever waits for the master is patient for
twice as long."""
_LOOK_AGAIN_S = 2.0
_SUBMITTED = "yarn.json"
_PRIVATE = 0o600


def unpack(directory: Path, environ: Mapping[str, str]) -> None:
    """Start the JVM, and write what travelled in the submitted credentials into *directory*.

    Raises:
        LaunchError: No Java or no Hadoop on this node, one that is too old, or nothing was
            submitted.
    """
    heap = int(environ.get(HEAP_VARIABLE) or heap_mib(0))
    java = java_home(environ, environ.get(JAVA_VARIABLE))
    # The script that lists Hadoop's jars starts a Java, too: the one that is known to be right.
    seen = {**environ, "JAVA_HOME": java} if java else environ
    try:
        start(hadoop_classpath(seen), heap, java, kerberos_options(environ))
    except LaunchError as error:
        raise _of_the_node(error, environ.get("NM_HOST", "")) from error
    files = credentials.secret_files()
    if _SUBMITTED not in files:
        raise LaunchError(
            "yarn",
            "the container's credentials hold no files of a cluster",
            next_step="Only `tarn up` starts a master of the runtime yarn.",
        )
    for name, data in files.items():
        path = directory / Path(name).name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)


def _of_the_node(error: LaunchError, host: str) -> LaunchError:
    """Return *error* for who reads it elsewhere: what is wrong is on the node, not with them."""
    step = error.next_step
    if error.code == "TARN-3121":
        step = (
            "Have Hadoop on the nodes updated, or name a newer client that each of them has in "
            "runtime.options.hadoop_home."
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
    """Return the runtime over the real YARN; nothing is said to it before it starts."""
    submitted = _submitted(context.directory)
    renewal = _renewal(context.directory)
    conf, handles, files = _conf(), Handles(), _files(submitted, context)
    if context.epoch.attempt > 1:  # the first one was submitted a moment ago
        submitted = _placed_now(submitted, conf)
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
    """Return the memory of this cluster's masters, on the Hadoop file system."""
    submitted = _submitted(context.directory)
    return HadoopStateStore(_files(submitted, context), Layout(submitted.staging).private)


def proxy(directory: Path, environ: Mapping[str, str]) -> ProxyRule:
    """Return which proxies this master trusts to name users: the RM's web proxies.

    YARN sets ``USER`` to who submitted, and the path under which its proxy shows this master
    (``ApplicationConstants``).
    """
    submitted = _submitted(directory)
    return ProxyRule(
        frozenset(submitted.proxies),
        environ.get("USER", ""),
        proves=submitted.proxy_proves,
        base=environ.get("APPLICATION_WEB_PROXY_BASE", ""),
    )


def names() -> UserDirectory:
    """Return how this Hadoop calls people; asked after the runtime, which has the JVM started."""
    return HadoopNames(_conf())


@functools.cache
def _conf() -> Any:
    """Return this process's configuration, which runtime and state store share: read once."""
    return configuration()


@functools.cache
def _renewal(directory: Path) -> Renewal:
    """Log in with the keytab that was brought, once for the process; say what came of it.

    A master without it is a master all the same, for as long as the tokens live.
    """
    principal, path = _submitted(directory).principal, directory / keytab.NAME
    if not principal or not path.is_file():
        return Renewal()
    users = load("org.apache.hadoop.security.UserGroupInformation")
    users.setConfiguration(_conf())
    give_up_s = time.monotonic() + KDC_PATIENCE_S
    while True:
        try:
            login.keep_on(principal, path)
        except LaunchError as error:
            if error.code == KDC_SILENT and time.monotonic() < give_up_s:
                threading.Event().wait(_LOOK_AGAIN_S)
                continue
            log.warning("the master goes on without its keytab: %s", error)
            return Renewal(principal, error.found)
        log.info("logged in to Hadoop as %s", principal)
        return Renewal(principal)


def _new_tokens(submitted: Submitted) -> bytes:
    """Return the credentials of one more container; blocks for a word with each file system.

    Raises:
        ProviderError: There are none now.
    """
    login.stay_logged_in()
    return credentials.packed(credentials.for_containers(_conf(), submitted.file_systems))


def _files(submitted: Submitted, context: MasterContext) -> Files:
    ends_at = None if _renewal(context.directory).works else submitted.tokens_end_at
    return MortalFiles(HadoopFiles(_conf()), ends_at, context.clock.at)


def _placed_now(submitted: Submitted, conf: Any) -> Submitted:
    """Return *submitted* with the placement of today: the RM may have been configured again."""
    was = web.Placement(submitted.placement, submitted.placement_reason)
    now = web.placement_now(web.Web(web.bases(conf)), was)
    return attrs.evolve(submitted, placement=now.mode, placement_reason=now.reason)


def _submitted(directory: Path) -> Submitted:
    path = directory / _SUBMITTED
    try:
        return make_converter().loads(path.read_bytes(), Submitted)
    except (OSError, ValueError, BaseValidationError) as error:
        raise LaunchError("yarn", "cannot be read", where=str(path)) from error
