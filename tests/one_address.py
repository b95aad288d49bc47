"""A fleet of real Tritons that is reached through one HAProxy, for HTTP and for gRPC."""

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import tritonclient.grpc as triton_grpc
from asking import ask
from house import House, clear, until
from one_triton_models import IDLE_S, repository
from proxied_fleet import Fleet, FleetAgent, followed
from servers.haproxy import HAPROXY, RenderedHaproxy
from servers.process import free_port
from tritonclient.utils import InferenceServerException

__all__ = ["Addresses", "ConfiguredHaproxy", "SharedAddress", "no_haproxy", "shared_address"]

WITHIN_S = 120.0
"""A fleet of six starts on two cores that others use, too."""


@attrs.frozen
class Addresses:
    """Where a client finds one Triton, or what should look like one."""

    http: str
    """``host:port``."""
    grpc: str
    """``host:port``."""
    proof: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """Headers of who may change a model or a setting."""


class ConfiguredHaproxy(RenderedHaproxy):
    """One with the files that ``tarn lb haproxy config -o FILE`` writes for a user.

    Args:
        house: Where the command runs, and the files are.
        cluster: Named in the file.
    """

    def __init__(self, house: House, cluster: str) -> None:
        super().__init__(house.root, cluster)
        done = house.tarn(
            *("lb", "haproxy", "config", "-o", str(self.file), "--cluster", cluster),
            *("--address", "127.0.0.1", "--http-port", str(self.http_port)),
            *("--grpc-port", str(self.grpc_port), "--stats-port", "0"),
            *("--peers-port", str(free_port()), "--socket", str(self.socket)),
            *("--user", "", "--group", ""),
        )
        assert done.returncode == 0, done.stderr

    def taking_everywhere(self) -> dict[str, int]:
        """Return how many servers of each backend for Triton new requests may go to."""
        _, *rows = self.command("show stat").splitlines()
        names = {row.split(",")[0] for row in rows if row.split(",")[1] == "BACKEND"}
        ours = (self.settings.backend, self.settings.grpc_backend)
        return {name: len(self.taking(name)) for name in names if name.startswith(ours)}


@attrs.frozen
class SharedAddress:
    """A running fleet, its HAProxy, and its agent."""

    house: House
    door: ConfiguredHaproxy
    fleet: Fleet
    agent: FleetAgent

    @property
    def addresses(self) -> Addresses:
        """Where clients reach the fleet."""
        token = (self.house.directory(self.fleet.name) / "api_token").read_text().strip()
        proof = {"authorization": f"Bearer {token}"}
        return Addresses(self.door.address, self.door.grpc_address, proof)

    @property
    def instances(self) -> tuple[Addresses, ...]:
        """Where each instance in the view is itself."""
        rows = self.fleet.ready().values()
        return tuple(Addresses(str(row["http"]), str(row["grpc"])) for row in rows)

    def scale(self, size: int) -> None:
        """Ask for another size, and do not wait."""
        self.fleet.api.scale(size)

    def settled(self, size: int) -> None:
        """Wait until *size* instances serve, HAProxy knows just those, and no other is left."""
        self.ready(size)
        until(lambda: len(self.fleet.all()) == size, WITHIN_S, f"no more than {size} instances")

    def ready(self, size: int) -> None:
        """Wait until *size* instances take new requests; others may still drain."""

        def everywhere() -> bool:
            return set(self.door.taking_everywhere().values()) == {size}

        self.fleet.settled(self.door, size)
        until(everywhere, WITHIN_S, lambda: f"{size}: {self.door.taking_everywhere()}")
        until(self._answers, WITHIN_S, "answers for the whole fleet")

    def _answers(self) -> bool:
        """Say whether the master answers over both protocols: its agent names it after a while."""
        try:
            with contextlib.closing(
                triton_grpc.InferenceServerClient(self.addresses.grpc)
            ) as client:
                client.get_inference_statistics()
        except InferenceServerException:
            return False
        return ask(self.door.http_port, "GET", "/v2/models/stats")[0] == 200

    def row(self, which: int = 0) -> Mapping[str, Any]:
        """Return what the master says of the instance in the view that is *which*-th by its id."""
        rows = sorted(self.fleet.ready().values(), key=lambda row: str(row["id"]))
        return rows[which]

    def kill(self, row: Mapping[str, Any]) -> None:
        """End an instance as a crash does."""
        os.kill(int(row["container_id"]), signal.SIGKILL)


def no_haproxy() -> str:
    """Return why no HAProxy can be started; empty: it can."""
    return "" if HAPROXY else "haproxy is not installed"


@contextlib.contextmanager
def shared_address(
    root: Path, name: str, *served: str, size: int = 2, idle_s: float = IDLE_S, **spec: Any
) -> Iterator[SharedAddress]:
    """Bring up a fleet behind HAProxy, and all down again.

    Args:
        root: An empty folder.
        name: Of the cluster.
        served: Models, of those in `one_triton_models.MODELS`; none: all.
        size: The first number of instances.
        idle_s: For so long a sequence may pause.
        spec: More of the ``tarn.yaml``, or instead of what is here; ``models`` is added to.
    """
    house = House(root)
    folder = repository(root, *served, idle_s=idle_s)
    keys: dict[str, Any] = {
        # Programs may share memory with it, and find the name that Triton has by itself.
        "triton": {
            "restricted": ["logging", "model-repository", "trace"],
            "args": {"id": "triton"},
            "exit_timeout": "5s",
        },
        "replicas": {"min": 1, "max": 8, "initial": size},
        "drain": {"timeout": "60s", "quiesce": "500ms"},
        **followed(),
        **spec,
        "models": {"repository": str(folder), "require": "all", **spec.get("models", {})},
    }
    path = house.spec(name, **keys)
    try:
        done = house.tarn(
            "up", "-f", path, "--timeout", f"{WITHIN_S:.0f}s", timeout_s=WITHIN_S + 30
        )
        assert done.returncode == 0, done.stderr
        with (
            ConfiguredHaproxy(house, name) as door,
            FleetAgent(house, door, name) as agent,
            Fleet(house, name) as fleet,
        ):
            one = SharedAddress(house, door, fleet, agent)
            try:
                one.settled(size)
                yield one
            finally:
                clear(house)  # while the agent is there, which the end waits for
    finally:
        clear(house)
