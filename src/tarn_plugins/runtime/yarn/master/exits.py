"""Explain why a container ended, from YARN's code, its diagnostics, and our requests. Pure.

A crash and a stop by TARN may have the same code (143, or -105), so the caller passes whether the
stop was requested. The codes are those of ``ContainerExitStatus`` of Hadoop 3.4.
"""

import re

from tarn.domain import ExitStatus
from tarn.errors import ProviderError, TarnError
from tarn.triton import exits
from tarn.triton.exits import hopeless, last_error, port_taken
from tarn_plugins.runtime.yarn.diagnostics import memory_hint, permission_step
from tarn_plugins.runtime.yarn.master.docker_failures import DockerFailure, docker_failure
from tarn_plugins.runtime.yarn.messages import Completed

__all__ = ["cancelled", "explain", "not_started", "passing"]

# YARN's ``ContainerExitStatus.INVALID``: no process ran, since a file could not be fetched.
_LOCALIZATION = -1000
_YARN = {
    -100: "YARN took the container back",
    -101: "the node's disks failed",
    -102: "preempted: YARN gave its place to another queue or application",
    -105: "stopped by a command of this application",
    -106: "killed by the ResourceManager",
    -107: "killed because the application was over",
    -108: "killed by its node to make room for guaranteed containers",
    -109: "killed because its logs grew beyond the node's limit. Lower triton.args.log-verbose",
}
_NODE_FAULTS = frozenset({-101})
_MEMORY = "instance.resources.memory"
_SHARED = "; the shared memory of Python models is a part of it"
_LOST = re.compile(r"\blost\b.{0,3}node|node.{0,20}\blost\b", re.IGNORECASE)
# (pattern of the diagnostics, text, next step, whether the node is at fault).
_FETCH = (
    (
        re.compile(
            r"InvalidToken|token.{0,80}(expired|can't be found)|cannot authenticate", re.IGNORECASE
        ),
        "its files could not be fetched: the delegation tokens have ended or are missing",
        "Submit the cluster again: `tarn down`, then `tarn up`",
        False,
    ),
    (
        re.compile(r"changed on src filesystem", re.IGNORECASE),
        "a file changed between its listing and its transfer",
        "Publish models under a new path instead of changing files in place",
        False,
    ),
    (
        re.compile(r"no space left|disk.{0,20}(is full|quota)|no space available", re.IGNORECASE),
        "the node has no space left for its files",
        "Free space under yarn.nodemanager.local-dirs",
        True,
    ),
    (
        re.compile(r"permission denied|AccessControlException", re.IGNORECASE),
        "the node may not read one of its files",
        "Grant the cluster's owner the right to read the repository and its directories",
        False,
    ),
    (
        re.compile(r"does not exist|FileNotFoundException|no such file", re.IGNORECASE),
        "one of its files no longer exists",
        "Put it back, or submit the cluster again",
        False,
    ),
)
# A shell's own exit codes.
_NO_PROGRAM = {126: "the node cannot run its program", 127: "the node has no such program"}
# The error text of a shell: dash, bash or busybox.
_SHELL = re.compile(
    r"(?P<program>[^\s:]+): (?:not found|no such file or directory|permission denied|"
    r"cannot execute.*)\s*$",
    re.IGNORECASE | re.MULTILINE,
)
_LONGEST = 300


def explain(completed: Completed, *, asked: bool, memory_mib: int | None = None) -> ExitStatus:
    """Return how a container ended.

    Args:
        completed: YARN's report.
        asked: TARN requested its stop, or released it.
        memory_mib: The requested memory; None if unknown.
    """
    error = last_error(completed.diagnostics.splitlines())
    if asked:
        # Without the code, 137 or 143, which tells nothing of requests in flight.
        return ExitStatus("stopped as asked", expected=True, last_error=error)
    if completed.exit_code == _LOCALIZATION:
        return _not_fetched(completed)
    memory = memory_hint(completed.exit_code, completed.diagnostics, _MEMORY, memory_mib)
    if completed.exit_code not in _YARN and not memory:
        failure = docker_failure(completed.diagnostics)
        if failure is not None:
            return _by_docker(failure, completed, error)
    memory = memory or _probably_memory(completed.exit_code, memory_mib)
    reason, blame = (f"{memory}{_SHARED}", False) if memory else _ended(completed)
    return ExitStatus(
        f"{reason}: {error}" if error else reason,
        completed.exit_code,
        node_fault=blame or port_taken(error),
        permanent=hopeless(error),
        last_error=error,
    )


def _by_docker(failure: DockerFailure, completed: Completed, error: str) -> ExitStatus:
    """Return the end of a container that failed by Docker, or by YARN's use of it."""
    # `port_taken` looks for these words, so that the next instance there gets other ports.
    taken = f"{failure.found}: already in use" if failure.port_taken else error
    return ExitStatus(
        str(failure),
        completed.exit_code,
        node_fault=failure.node_fault,
        permanent=failure.permanent,
        last_error=taken,
    )


def not_started(error: Exception, *, at_node: bool) -> ExitStatus:
    """Return the end of an instance whose process was never started.

    Args:
        error: The error of its preparation or start.
        at_node: Its NodeManager refused or did not answer.
    """
    if isinstance(error, TarnError):
        permanent = isinstance(error, ProviderError) and not passing(error)
        return ExitStatus(str(error), node_fault=at_node and not permanent, permanent=permanent)
    return ExitStatus(f"could not be started: {type(error).__name__}: {error}", node_fault=at_node)


def passing(error: Exception) -> bool:
    """Return whether *error* is temporary: it says when to retry."""
    return isinstance(error, ProviderError) and error.retry_after_s is not None


def cancelled() -> ExitStatus:
    """Return the end of an instance that was stopped before its process started."""
    return ExitStatus("cancelled before it started", expected=True)


def _ended(completed: Completed) -> tuple[str, bool]:
    code, said = completed.exit_code, completed.diagnostics
    if code == -100 and _LOST.search(said):  # noqa: PLR2004 (ABORTED: the one with many causes)
        return "its node was lost", True
    if code in _YARN:
        return _YARN[code], code in _NODE_FAULTS
    if code < 0:
        return f"ended by YARN with code {code}: {_first_line(said)}", False
    if code in _NO_PROGRAM:
        named = _SHELL.search(said)
        what = f"{_NO_PROGRAM[code]}: {named['program']}" if named else _NO_PROGRAM[code]
        return f"{what} (exit code {code}). See triton.binary and runtime.options.python", False
    return exits.ended(code), False


def _probably_memory(code: int, asked_mib: int | None) -> str:
    # The kernel sends SIGKILL when a cgroup has no memory left. (So does `docker kill`.)
    if not exits.killed(code):
        return ""
    asked = "" if asked_mib is None else f" ({_MEMORY} asked for {asked_mib} MiB)"
    return f"{exits.ended(code)}, not by TARN: probably out of memory{asked}. Raise {_MEMORY}"


def _not_fetched(completed: Completed) -> ExitStatus:
    said = completed.diagnostics
    for pattern, words, step, blame in _FETCH:
        if pattern.search(said):
            found = f"{words}. {permission_step(said) or step}"
            return ExitStatus(found, completed.exit_code, node_fault=blame)
    found = _first_line(said) or "no reason given"
    return ExitStatus(f"YARN could not prepare its container: {found}", completed.exit_code)


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} …"
