"""Why a container ended, in words. Pure: YARN's code, its diagnostics, and what we had asked.

A code alone does not tell a crash from our own stop (both may be 143, or -105), so what was asked
is passed in. Codes: ``ContainerExitStatus`` of Hadoop 3.4.
"""

import re

from tarn.domain import ExitStatus
from tarn.errors import ProviderError, TarnError
from tarn.triton import exits
from tarn.triton.last_words import hopeless, last_error, port_taken
from tarn_plugins.runtime.yarn.denied import opening
from tarn_plugins.runtime.yarn.master.docker_failures import DockerFailure, docker_failure
from tarn_plugins.runtime.yarn.memory_limit import exceeded
from tarn_plugins.runtime.yarn.messages import Completed

__all__ = ["cancelled", "explain", "not_started", "passing"]

_LOCALIZATION = -1000
_YARN = {
    -100: "YARN took the container back",
    -101: "the node's disks failed",
    -102: "preempted: YARN gave its place to another queue or application",
    -105: "stopped by a command of this application",
    -106: "killed by the ResourceManager",
    -107: "killed because the application was over",
    -108: "killed by its node to make room for guaranteed containers",
    -109: "killed because its logs grew beyond the node's limit",
}
_NODE_FAULTS = frozenset({-101})
_NEXT_STEP = {
    -109: "Lower triton.args.log-verbose",
}
_MEMORY = "instance.resources.memory"
_SHARED = "; the shared memory of Python models is a part of it"
_LOST = re.compile(r"\blost\b.{0,3}node|node.{0,20}\blost\b", re.IGNORECASE)
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
"""(what the diagnostics hold, in words, next step, whether the node is to blame)."""
_NO_PROGRAM = {126: "the node cannot run its program", 127: "the node has no such program"}
"""What a shell's own exit codes say."""
_SHELL = re.compile(
    r"(?P<program>[^\s:]+): (?:not found|no such file or directory|permission denied|"
    r"cannot execute.*)\s*$",
    re.IGNORECASE | re.MULTILINE,
)
"""A shell's complaint, whichever it is (dash, bash, busybox)."""
_LONGEST = 300


def explain(completed: Completed, *, asked: bool, memory_mib: int | None = None) -> ExitStatus:
    """Return how a container ended; *asked* when its stop or its return was our own doing.

    *memory_mib* is what it was asked with, where that is known.

    The code of an asked end is left out: 137 or 143 is how YARN's stop looks, and says nothing of
    requests that were cut.
    """
    error = last_error(completed.diagnostics.splitlines())
    if asked:
        return ExitStatus("stopped as asked", expected=True, last_error=error)
    if completed.exit_code == _LOCALIZATION:
        return _not_fetched(completed)
    memory = exceeded(completed.exit_code, completed.diagnostics, _MEMORY, memory_mib)
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
    """Return the end of a container that Docker, or YARN's use of it, did not let live."""
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
        error: What preparing or starting it raised.
        at_node: Its NodeManager refused or did not answer.
    """
    if isinstance(error, TarnError):
        permanent = isinstance(error, ProviderError) and not passing(error)
        return ExitStatus(str(error), node_fault=at_node and not permanent, permanent=permanent)
    return ExitStatus(f"could not be started: {type(error).__name__}: {error}", node_fault=at_node)


def passing(error: Exception) -> bool:
    """Say whether the same may work later: whoever raised *error* said after how long."""
    return isinstance(error, ProviderError) and error.retry_after_s is not None


def cancelled() -> ExitStatus:
    """Return the end of an instance that was stopped before it had a process."""
    return ExitStatus("cancelled before it started", expected=True)


def _ended(completed: Completed) -> tuple[str, bool]:
    code, said = completed.exit_code, completed.diagnostics
    if code == -100 and _LOST.search(said):  # noqa: PLR2004 (ABORTED: the one with many causes)
        return "its node was lost", True
    if code in _YARN:
        return _with_step(_YARN[code], code), code in _NODE_FAULTS
    if code < 0:
        return f"ended by YARN with code {code}: {_first_line(said)}", False
    if code in _NO_PROGRAM:
        named = _SHELL.search(said)
        what = f"{_NO_PROGRAM[code]}: {named['program']}" if named else _NO_PROGRAM[code]
        return f"{what} (exit code {code}). See triton.binary and runtime.options.python", False
    return exits.ended(code), False


def _probably_memory(code: int, asked_mib: int | None) -> str:
    """Say what a kill by nobody we know of means; '' where it was none.

    The kernel kills what a cgroup has no memory for, and Docker what somebody kills by name.
    """
    if not exits.killed(code):
        return ""
    asked = "" if asked_mib is None else f" ({_MEMORY} asked for {asked_mib} MiB)"
    return f"{exits.ended(code)}, not by TARN: probably out of memory{asked}. Raise {_MEMORY}"


def _with_step(reason: str, code: int) -> str:
    step = _NEXT_STEP.get(code)
    return f"{reason}. {step}" if step else reason


def _not_fetched(completed: Completed) -> ExitStatus:
    said = completed.diagnostics
    for pattern, words, step, blame in _FETCH:
        if pattern.search(said):
            found = f"{words}. {opening(said) or step}"
            return ExitStatus(found, completed.exit_code, node_fault=blame)
    found = _first_line(said) or "no reason given"
    return ExitStatus(f"YARN could not prepare its container: {found}", completed.exit_code)


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} …"
