"""Random scale sequences over fake Tritons, overlapping up and down: nothing is lost.

``TARN_TEST_SEQUENCES`` says how many are played (32; a whole run is 100); their seed is another one
each time.
"""

import os
from collections.abc import Iterator

import attrs
import pytest
from open_wave import Client, Wave
from proxied_fleet import executed
from scaling.scene import Scene, fakes, up
from scaling.sequences import FEWEST_OVERLAPS, WILFUL, draw, play, story

pytestmark = pytest.mark.endurance

SEQUENCES = int(os.environ.get("TARN_TEST_SEQUENCES", "32"))  # noqa: TID251
LANES, MOST = 4, 6
RATE = 60.0
SLOWLY_S = 0.02
"""How long a request executes: so that some always do when an instance is taken."""


@attrs.frozen
class Lane:
    """One cluster, on which sequences are played one after another."""

    number: int
    scene: Scene
    client: Client


@pytest.fixture(scope="class")
def lane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lane]:
    """Half the lanes are asked by TARN's client, half by clients that re-read ``/instances``."""
    number: int = request.cls.number
    root = tmp_path_factory.mktemp(f"lane{number}")
    keys = {
        **fakes(root, SLOWLY_S),
        "replicas": {"min": 1, "max": MOST, "initial": 2},
        "drain": {"timeout": "60s"},
        "scaling": WILFUL,
    }
    with up(root, "lane", **keys) as scene, scene.reading() as reading:
        yield Lane(number, scene, scene.balanced if number % 2 == 0 else reading)


class Sequences:
    """What each lane plays; a worker of pytest-xdist takes a whole lane (``--dist loadscope``)."""

    number: int

    @pytest.mark.parametrize("turn", range(SEQUENCES // LANES))
    def test_a_random_sequence_loses_and_doubles_nothing(
        self, lane: Lane, turn: int, sequences_seed: int
    ) -> None:
        """Thirty events, many before the last one settled: every request is executed once."""
        number = turn * LANES + lane.number
        steps = draw(sequences_seed, number, MOST)
        again = f"--sequences-seed={sequences_seed}, sequence {number}"
        with Wave(lane.client, RATE, first=(number + 1) * 1_000_000) as load:
            course = play(lane.scene.fleet, load, steps, MOST)
        assert load.missed == [], f"{again}\n{story(lane.scene.fleet, load)}"
        assert load.report.doubled == 0, again
        assert load.report.answered == set(load.numbers), again
        ran = executed(lane.scene.root)
        assert [n for n in load.numbers if ran[n] != 1] == [], again
        assert course.overlapped >= FEWEST_OVERLAPS, again
        cut = "TARN-1109"
        assert cut not in {event["code"] for event in lane.scene.fleet.api.events()}, again


class TestLane0(Sequences):
    number = 0


class TestLane1(Sequences):
    number = 1


class TestLane2(Sequences):
    number = 2


class TestLane3(Sequences):
    number = 3
