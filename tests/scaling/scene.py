"""A cluster without a load balancer, and what loads it; fake Tritons that write down what they do.

``ledger`` in the root holds the numbers that were executed, ``scrapes`` the moments at which
metrics were asked for.
"""

import contextlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import attrs
import open_loop
from house import House, clear
from open_wave import Client, Readers, balanced
from proxied_fleet import Fleet, ledger_model
from servers.lb_agent import fake_tritons

__all__ = ["Scene", "fakes", "real", "up"]

_PROGRAM = Path(__file__).with_name("ledger_triton.py")


@attrs.frozen
class Scene:
    """A cluster that is up."""

    root: Path
    fleet: Fleet
    api_token: str = attrs.field(repr=False)

    @property
    def balanced(self) -> Client:
        """TARN's own client."""
        return balanced(self.fleet.api.url, self.api_token)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Client]:
        """Yield clients that re-read ``/instances``."""
        with closing(open_loop.Fleet(self.fleet.api.url, self.api_token)) as known:
            yield lambda: Readers(known)

    def queue(self, length: int) -> None:
        """Let every fake say that so many requests wait, from its next look on."""
        told = self.root / "next"
        told.write_text(str(length))
        told.rename(self.root / "queue")

    def scrapes(self, until: float = float("inf")) -> list[float]:
        """Return when one fake was asked for metrics, in Unix seconds, in order.

        It is the one that was asked last, of what was asked before *until*. Real ones do not tell.
        """
        texts = [path.read_text() for path in self.root.glob("scrapes/*")]
        every = [[float(word) for word in text.split()] for text in texts]
        newest = [max((at for at in of if at < until), default=0.0) for of in every]
        return every[newest.index(max(newest))] if every else []


def fakes(root: Path, latency_s: float, at_once: int = 1) -> dict[str, Any]:
    """Return the part of a spec whose Tritons are fakes: so many requests at once, each so long."""
    tritons = fake_tritons(root, "-IS", str(_PROGRAM))
    told = {"latency_s": latency_s, "instances": at_once}
    (root / "models" / "echo" / "fake.json").write_text(json.dumps(told))
    for name in ("ledger", "scrapes"):
        (root / name).mkdir()
    tritons["triton"]["env"] = {"LEDGER": str(root / "ledger"), "SCRAPES": str(root / "scrapes")}
    return tritons


def real(root: Path, takes_s: float) -> dict[str, Any]:
    """Return the part of a spec whose Tritons are real: one request at once, each so long."""
    environ = ledger_model(root, takes_s)
    return {"models": {"repository": str(root / "models")}, "triton": {"env": environ}}


@contextlib.contextmanager
def up(root: Path, name: str, **keys: Any) -> Iterator[Scene]:
    """Bring a cluster up; nothing of it is left after the block."""
    house = House(root)
    path = house.spec(name, **keys)
    with ExitStack() as stack:
        stack.callback(clear, house)
        done = house.tarn("up", "-f", path, "--timeout", "60s")
        assert done.returncode == 0, done.stderr
        fleet = stack.enter_context(Fleet(house, name))
        token = (house.directory(name) / "api_token").read_text().strip()
        yield Scene(root, fleet, token)
