"""A stand-in for Hadoop's native ``container-executor``, for the tests. It is NO SECURITY BOUNDARY.

The native program is setuid root, and guards a node against its own NodeManager; this one believes
whatever it is told, and is to run on a machine where NodeManager and user are the same root. What
it shares with the native one is the command line that LinuxContainerExecutor and
DockerLinuxContainerRuntime of Hadoop 3 speak, and the words and codes of its refusals, as read in
the native sources: of another version they may differ.

NodeManagers start it with an empty environment, so the path of its configuration is an argument
that a wrapper puts in front. That file is a ``container-executor.cfg`` as administrators write it;
``docker.host`` in it is an addition, for a dockerd with a socket of its own.

Only the standard library is used, and the two modules next to it: it starts for every word of a
NodeManager.
"""

import contextlib
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from executor_docker import Docker, command_in, run_arguments, told
from executor_rights import Configuration, Refused, say, split

INVALID_USER, UNABLE, NO_PROCESS, UNKNOWN_OPERATION = 2, 7, 9, 32
"""What the native program exits with."""
ENDED_BY_A_SIGNAL = 128
QUIET = (0, ENDED_BY_A_SIGNAL + signal.SIGKILL, ENDED_BY_A_SIGNAL + signal.SIGTERM)
"""Ends of a container that are no news."""
LOOKS, LOOK_S = 100, 0.1


# -- users, directories, files


def account(name: str, configuration: Configuration) -> pwd.struct_passwd:
    """Return the user a container runs as."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise Refused(INVALID_USER, f"User {name} not found") from None
    least = int(configuration.get("min.user.id", "1000", "main"))
    if found.pw_uid < least and name not in configuration.many("allowed.system.users", "main"):
        words = f"has id {found.pw_uid},which is below the minimum allowed {least}"
        raise Refused(INVALID_USER, f"Requested user {name} is not whitelisted and {words}")
    if name in configuration.many("banned.users", "main"):
        raise Refused(INVALID_USER, f"Requested user {name} is banned")
    return found


class Place(NamedTuple):
    """Where the files of one container lie, on every disk of the node."""

    user: str
    """Whose application it is; another than who runs it, perhaps."""
    application: str
    container: str
    local: list[str]
    logs: list[str]

    def make(self, owner: pwd.struct_passwd, work: str | None = None) -> None:
        """Make its directories: they are the owner's, and the NodeManager's group may enter.

        Before a mount is looked at: the directory of the logs is one, and nobody else makes it
        where everything was localized already.
        """
        for disk in self.local:
            cache = f"{disk}/usercache/{self.user}"
            Path(f"{disk}/usercache").mkdir(parents=True, exist_ok=True)
            owned(cache, owner, 0o2750)
            for part in ("appcache", "filecache", f"appcache/{self.application}"):
                owned(f"{cache}/{part}", owner, 0o2710)
            if work:
                owned(f"{cache}/appcache/{self.application}/{self.container}", owner, 0o2710)
        if work:
            owned(work, owner, 0o2710)
            owned(f"{work}/tmp", owner, 0o2750)
        for disk in self.logs:
            owned(f"{disk}/{self.application}", owner, 0o2750)
            owned(f"{disk}/{self.application}/{self.container}", owner, 0o2750)


def owned(path: str, owner: pwd.struct_passwd, mode: int) -> None:
    Path(path).mkdir(parents=True, exist_ok=True)
    os.chown(path, owner.pw_uid, os.getgid())
    Path(path).chmod(mode)


def handed(source: str, target: str, owner: pwd.struct_passwd, mode: int) -> None:
    """Copy a file of the NodeManager for the owner."""
    with Path(source).open("rb") as given:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as taken:
            shutil.copyfileobj(given, taken)
            os.fchown(taken.fileno(), owner.pw_uid, os.getgid())
            os.fchmod(taken.fileno(), mode)


def put(path: str, text: str) -> None:
    """Write a file whole or not at all: a NodeManager reads it at any time."""
    draft = Path(f"{path}.draft")
    draft.write_text(text)
    draft.replace(path)


def as_user(owner: pwd.struct_passwd, folder: str) -> dict[str, object]:
    """Return what `subprocess.Popen` needs to run something as the owner."""
    groups = os.getgrouplist(owner.pw_name, owner.pw_gid)
    return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": groups, "cwd": folder}


# -- one container


class Launch(NamedTuple):
    """What a NodeManager says to launch: the arguments behind the operation."""

    place: Place
    work: str
    script: str
    tokens: str
    pid_file: str
    more: Sequence[str]

    @classmethod
    def read(cls, user: str, arguments: Sequence[str]) -> "Launch":
        application, container, work, script, tokens, kind, *rest = arguments
        pid_file, local, logs, *more = rest[2:] if kind == "--https" else rest
        place = Place(user, application, container, split(local, "%"), split(logs, "%"))
        return cls(place, work, script, tokens, pid_file, more)

    def prepare(self, owner: pwd.struct_passwd) -> None:
        self.place.make(owner, self.work)
        say("Creating script paths...")
        handed(self.script, f"{self.work}/launch_container.sh", owner, 0o700)
        handed(self.tokens, f"{self.work}/container_tokens", owner, 0o600)

    def ended(self, code: int) -> int:
        put(f"{self.pid_file}.exitcode", str(code))
        say(f"Wrote the exit code {code} to {self.pid_file}.exitcode")
        return code


class Executor:
    """The operations, by what a NodeManager calls them."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._docker = Docker(configuration)

    def __call__(self, arguments: Sequence[str]) -> int:
        word, *rest = arguments
        flags: dict[str, Callable[[], object]] = {
            "--checksetup": lambda: None,
            "--mount-cgroups": lambda: None,
            "--module-gpu": lambda: None,
            "--module-devices": lambda: None,
            "--run-docker": lambda: self._docker.become(*told(rest[0])),
            "--inspect-docker-container": lambda: self._docker.become("inspect", *rest),
            "--remove-docker-container": lambda: self._docker.become("rm", "--force", rest[-1]),
        }
        if word in flags:
            flags[word]()
            return 0
        if word.startswith("--"):
            raise Refused(UNKNOWN_OPERATION, f"Feature disabled: {word}")
        return self._as_user(word, rest[0], int(rest[1]), rest[2:])

    def _as_user(self, name: str, user: str, operation: int, rest: Sequence[str]) -> int:
        say(f"main : command provided {operation}")
        say(f"main : run as user is {name}")
        say(f"main : requested yarn user is {user}")
        owner = account(name, self._configuration)
        operations: dict[int, Callable[[], int]] = {
            0: lambda: localize(owner, user, rest),
            1: lambda: launch(owner, Launch.read(user, rest)),
            2: lambda: tell(int(rest[0]), int(rest[1])),
            3: lambda: delete(rest[0], rest[1:]),
            4: lambda: self._contain(owner, Launch.read(user, rest)),
            5: lambda: list_files(rest[0]),
            6: lambda: 0,  # sysfs: what services tell their own containers
        }
        if operation not in operations:
            raise Refused(UNKNOWN_OPERATION, f"Unknown operation {operation}")
        return operations[operation]()

    def _contain(self, owner: pwd.struct_passwd, order: Launch) -> int:
        """Start a container of Docker, and wait for its end."""
        name = order.place.container
        order.prepare(owner)
        arguments = self._command(command_in(order.more[0]))
        say("Changing effective user to root...")
        say("Docker run command: " + " ".join([*self._docker.argv, *arguments]))
        started = self._docker.run(*arguments)
        if started.returncode:
            say(started.stderr.rstrip(), 2)
            return order.ended(UNABLE)
        if pid := self._pid(name):
            say(f"Writing pid file: {pid}")
            put(order.pid_file, str(pid))
            wait_for(pid)
        # At once, when it has ended: docker knows a moment later than the kernel.
        ended = self._docker.run("wait", name)
        if ended.returncode:
            say(ended.stderr.rstrip(), 2)
            return order.ended(UNABLE)
        code = int(ended.stdout)
        if code not in QUIET:
            log = self._docker.run("logs", "--tail=250", name)
            say(f"Docker container exit code was not zero: {code}", 2)
            say((log.stdout + log.stderr).strip() or "Unable to read from docker logs", 2)
        return order.ended(code)

    def _command(self, told: dict[str, str]) -> list[str]:
        if told["docker-command"] == "start":
            return ["start", told["name"]]
        return ["run", *run_arguments(told, self._configuration)]

    def _pid(self, name: str) -> int:
        """Return the pid of the container's first process, here; 0 when it has ended already."""
        pause = threading.Event()
        for _ in range(LOOKS):
            found = self._docker.run("inspect", "--format={{.State.Pid}} {{.State.Status}}", name)
            if found.returncode == 0:
                pid, status = found.stdout.split()
                if int(pid) or status in ("exited", "dead"):
                    return int(pid)
            pause.wait(LOOK_S)
        return 0


# -- everything without Docker


def localize(owner: pwd.struct_passwd, user: str, arguments: Sequence[str]) -> int:
    """Run the localizer, Java, as the owner: it finds the tokens in its directory."""
    application, container, tokens, local, logs, *java = arguments
    place = Place(user, application, container, split(local, "%"), split(logs, "%"))
    place.make(owner)
    folder = f"{place.local[0]}/usercache/{user}/appcache/{application}"
    handed(tokens, f"{folder}/{Path(tokens).name}", owner, 0o600)
    return subprocess.Popen(java, **as_user(owner, folder)).wait()


def launch(owner: pwd.struct_passwd, order: Launch) -> int:
    """Run a plain process as the owner, and wait for its end."""
    order.prepare(owner)
    argv = ["/bin/bash", f"{order.work}/launch_container.sh"]
    process = subprocess.Popen(argv, **as_user(owner, order.work), start_new_session=True)
    put(order.pid_file, str(process.pid))
    code = process.wait()
    return order.ended(ENDED_BY_A_SIGNAL - code if code < 0 else code)


def wait_for(pid: int) -> None:
    """Return when a process that is not our child has ended."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll()


def tell(pid: int, number: int) -> int:
    """Signal a process and its group; 0 asks whether it is there."""
    for target in (-pid, pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(target, number)
            return 0
    raise Refused(NO_PROCESS, f"Error signalling not exist process group {pid} with {number}")


def delete(path: str, folders: Sequence[str]) -> int:
    """Delete *path*, in each of the folders where there are any."""
    for each in [Path(folder, path) for folder in folders] or [Path(path)]:
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)
    return 0


def list_files(path: str) -> int:
    found = Path(path)
    for name in sorted(each.name for each in found.iterdir()) if found.is_dir() else [path]:
        say(name)
    return 0


def main(arguments: Sequence[str]) -> int:
    """Do what a NodeManager says; return the code to exit with."""
    path, *rest = arguments
    try:
        return Executor(Configuration(path))(rest)
    except Refused as refused:
        for line in refused.lines:
            say(line, 2)
        return refused.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
