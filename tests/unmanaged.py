"""Applications of the test process itself: masters that no NodeManager started.

Each has its own user's context, so that one JVM can be many masters at once. It must have been
started: `servers.yarn.java`.
"""

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import jpype

from tarn.java import load
from tarn_plugins.runtime.yarn.hadoop import configuration
from tarn_plugins.runtime.yarn.hadoop.clients import (
    HadoopNodeManagers,
    HadoopResourceManager,
    Handles,
)
from tarn_plugins.runtime.yarn.messages import (
    AllocatedContainer,
    AllocateResponse,
    Completed,
    Exchange,
    Registered,
    Rejected,
)

RECORDS = "org.apache.hadoop.yarn.api.records."
BEAT_S = 0.1


class Application:
    """One application, registered, with both doors open. Leaves nothing behind."""

    def __init__(self, mode: str = "scheduling") -> None:
        self.conf = configuration()
        self.yarn = load("org.apache.hadoop.yarn.client.api.YarnClient").createYarnClient()
        self.yarn.init(self.conf)
        self.yarn.start()
        self.mode, self.id = mode, self._submit()
        self.token = self._until(lambda: self.yarn.getAMRMToken(self.id), "token")
        self.granted: list[AllocatedContainer] = []
        self.completed: list[Completed] = []
        self.rejected: list[Rejected] = []
        self.answer = AllocateResponse()
        self.rm: HadoopResourceManager
        self.nodes: HadoopNodeManagers
        self.attempt()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.yarn.killApplication(self.id)
        finally:
            self.nodes.close()
            self.rm.close()
            self.yarn.stop()

    def attempt(self) -> Registered:
        """Connect and register; once more, it is as if a next attempt had been started.

        YARN starts no attempt of its own for such an application, and lets it register again.
        """
        users = load("org.apache.hadoop.security.UserGroupInformation")
        user = users.createRemoteUser(str(users.getCurrentUser().getShortUserName()))
        user.addToken(self.token)
        handles = self.handles = Handles()

        def connect() -> None:
            self.rm = HadoopResourceManager(handles, self.conf, self.mode, "1-1")
            self.nodes = HadoopNodeManagers(handles, self.conf)
            self.registered = self.rm.register("127.0.0.1", 1, "")

        _as(user, connect)
        return self.registered

    def say(self, **said: Any) -> AllocateResponse:
        """Exchange one heartbeat, and note what came."""
        self.answer = self.rm.exchange(Exchange(**said))
        self.granted += self.answer.granted
        self.completed += self.answer.completed
        self.rejected += self.answer.rejected
        return self.answer

    def beat(self, until: Callable[[], bool], within_s: float = 15.0) -> None:
        """Exchange empty heartbeats until something is so."""
        deadline = time.monotonic() + within_s
        while not until():
            assert time.monotonic() < deadline, (self.granted, self.completed, self.rejected)
            threading.Event().wait(BEAT_S)
            self.say()

    def rest(self, seconds: float = 2.0) -> None:
        """Exchange empty heartbeats for a while: what did not come by then does not come."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            threading.Event().wait(BEAT_S)
            self.say()

    def held(self) -> dict[int, str]:
        """Number to node of each container that is ours at present."""
        over = {each.container_id for each in self.completed}
        return {each.number: each.node for each in self.granted if each.container_id not in over}

    def of(self, number: int) -> AllocatedContainer:
        return next(each for each in self.granted if each.number == number)

    def exit_code(self, number: int) -> int:
        """Return how a container ended; waits for its end."""
        container_id = self.of(number).container_id
        self.beat(lambda: any(each.container_id == container_id for each in self.completed))
        return next(e.exit_code for e in self.completed if e.container_id == container_id)

    def _submit(self) -> Any:
        context = self.yarn.createApplication().getApplicationSubmissionContext()
        context.setApplicationName(f"tarn-test-{secrets.token_hex(4)}")
        context.setUnmanagedAM(True)
        context.setQueue("default")
        context.setResource(load(RECORDS + "Resource").newInstance(128, 1))
        context.setKeepContainersAcrossApplicationAttempts(True)
        nothing = load("java.util.HashMap")()
        context.setAMContainerSpec(
            load(RECORDS + "ContainerLaunchContext").newInstance(
                nothing, nothing, load("java.util.ArrayList")(["true"]), None, None, None
            )
        )
        self.yarn.submitApplication(context)
        return context.getApplicationId()

    def _until(self, look: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + 30
        while True:
            state = str(self.yarn.getApplicationReport(self.id).getYarnApplicationState())
            found = look() if state in ("ACCEPTED", "RUNNING") else None
            if found is not None:
                return found
            assert time.monotonic() < deadline, f"no {what}: {state}"
            threading.Event().wait(BEAT_S)


def _as(user: Any, act: Callable[[], None]) -> None:
    """Do *act* as another user of this JVM."""
    failures: list[BaseException] = []

    @jpype.JImplements("java.security.PrivilegedExceptionAction")
    class Action:
        @jpype.JOverride
        def run(self) -> None:
            try:
                act()
            except Exception as error:  # noqa: BLE001 (raised again on this side of Java)
                failures.append(error)

    user.doAs(Action())
    if failures:
        raise failures[0]
