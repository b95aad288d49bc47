"""Five random scale sequences over real Tritons with HAProxy in front: nothing is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from open_wave import Wave, straight
from proxied_fleet import ProxiedFleet, executed, proxied_fleet
from scaling.scene import real
from scaling.sequences import FEWEST_OVERLAPS, WILFUL, draw, play, story

pytestmark = [pytest.mark.discovery, pytest.mark.triton, pytest.mark.endurance]

SEQUENCES, MOST = 5, 4
RATE = 40.0
PACE = 2
SLOWLY_S = 0.02


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sequences")


@pytest.fixture(scope="module")
def stage(root: Path) -> Iterator[ProxiedFleet]:
    tritons = {
        **real(root, SLOWLY_S),
        "scaling": WILFUL,
    }
    with proxied_fleet(root, "wild", tritons) as one:
        yield one


@pytest.mark.parametrize("number", range(SEQUENCES))
def test_a_random_sequence_through_haproxy_loses_and_doubles_nothing(
    stage: ProxiedFleet, root: Path, number: int, sequences_seed: int
) -> None:
    """Thirty events, many before the last one settled: every request is executed once."""
    steps = draw(sequences_seed, 1000 + number, MOST)
    again = f"--sequences-seed={sequences_seed}, sequence {number}"
    stage.two_left()
    with Wave(straight(stage.door.address), RATE, first=(number + 1) * 1_000_000) as load:
        course = play(stage.fleet, load, steps, MOST, PACE)
    assert load.missed == [], f"{again}\n{story(stage.fleet, load)}"
    assert load.report.answered == set(load.numbers), again
    ran = executed(root)
    assert [n for n in load.numbers if ran[n] != 1] == [], again
    assert course.overlapped >= FEWEST_OVERLAPS, again
    assert {line.ending[0] for line in stage.door.lines()} == {"-"}, again
