"""A hundred random scale sequences over fake Tritons, overlapping up and down: nothing is lost."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import attrs
import open_loop
import pytest
from agent_stage import fake_tritons
from discovery_house import Fleet, executed
from house import House, clear
from open_wave import Client, Readers, Wave, balanced
from scaling.sequences import EVENTS, draw, play

pytestmark = pytest.mark.endurance

SEQUENCES, LANES, MOST = 100, 4, 6
RATE = 60.0
LEDGER = str(Path(__file__).with_name("ledger_triton.py"))
SLOWLY_S = "0.02"
"""How long a request executes: so that some always do when an instance is taken."""


@attrs.frozen
class Lane:
    """One cluster, on which sequences are played one after another."""

    number: int
    root: Path
    fleet: Fleet
    client: Client


@pytest.fixture(scope="module")
def lane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lane]:
    """Half the lanes are asked by TARN's client, half by clients that re-read ``/instances``."""
    root = tmp_path_factory.mktemp(f"lane{request.param}")
    house = House(root)
    (root / "ledger").mkdir()
    tritons = fake_tritons(root, "-IS", LEDGER)
    tritons["triton"]["env"] = {"LEDGER": str(root / "ledger"), "FAKE_TRITON_LATENCY_S": SLOWLY_S}
    follows = request.param % 2 == 0
    path = house.spec(
        "lane",
        **tritons,
        replicas={"min": 1, "max": MOST, "initial": 2},
        drain={"timeout": "60s", "quiesce": "500ms" if follows else "2s"},
        scaling={"interval": "200ms", "cooldown": "200ms"},
    )
    with ExitStack() as stack:
        stack.callback(clear, house)
        done = house.tarn("up", "-f", path, "--timeout", "60s")
        assert done.returncode == 0, done.stderr
        fleet = stack.enter_context(Fleet(house, "lane"))
        token = (house.directory("lane") / "api_token").read_text().strip()
        if follows:
            yield Lane(request.param, root, fleet, balanced(fleet.api.url, token))
        else:
            known = stack.enter_context(closing(open_loop.Fleet(fleet.api.url, token)))
            yield Lane(request.param, root, fleet, lambda: Readers(known))


@pytest.mark.parametrize("turn", range(SEQUENCES // LANES))
@pytest.mark.parametrize(
    "lane",
    [pytest.param(n, marks=pytest.mark.xdist_group(f"lane-{n}")) for n in range(LANES)],
    indirect=True,
)
def test_a_random_sequence_loses_and_doubles_nothing(
    lane: Lane, turn: int, sequences_seed: int
) -> None:
    """Thirty events, most before the last one settled: every request is executed once."""
    number = turn * LANES + lane.number
    steps = draw(sequences_seed, number, MOST)
    again = f"--sequences-seed={sequences_seed}, sequence {number}"
    with Wave(lane.client, RATE, first=(number + 1) * 1_000_000) as load:
        course = play(lane.fleet, load, steps, MOST)
    assert load.missed == [], again
    assert load.report.doubled == 0, again
    assert load.report.answered == set(load.numbers), again
    ran = executed(lane.root)
    assert [n for n in load.numbers if ran[n] != 1] == [], again
    assert course.overlapped > EVENTS / 2, again
    assert "TARN-1109" not in {event["code"] for event in lane.fleet.api.events()}, again
