"""What an agent says: each thing once, and again when it is so again."""

import attrs
import pytest
from fake_master import instance, view

from tarn.domain import Applied, Epoch
from tarn.errors import NotAuthorizedError, RefusedError, UnreachableError
from tarn.follow.agent import SILENT_TIMES, AgentReporter, ApplyFailure


@pytest.fixture
def lines():
    return []


@pytest.fixture
def telling(lines):
    return AgentReporter(lines.append, "llama")


def seen(revision, *numbers, **changes):
    return attrs.evolve(view(tuple(instance(n) for n in numbers), revision), **changes)


def word(shown, error=""):
    return Applied("lb1", shown.epoch, shown.revision, 1.0, error)


@pytest.mark.parametrize(
    ("followers", "said"),
    [
        ([], False),
        ([{"name": "lb2", "required": False}], False),
        ([{"name": "lb2", "required": True}], True),
        ([{"name": "lb1", "required": True}, {"name": "lb2", "required": True}], False),
    ],
)
def test_an_agent_that_no_drain_waits_for_learns_so(telling, lines, followers, said):
    """Where others are waited for, its name is most likely not the one that was meant."""
    telling.met("lb1", {"followers": followers})
    assert bool(lines) is said
    if said:
        assert (
            "drains of llama wait for lb2, but not for this agent, which is called lb1" in lines[0]
        )
        assert "--name" in lines[0]


def test_a_revision_is_told_once_with_what_changed(telling, lines):
    """A moved instance comes and goes; the same again is no news."""
    first, second = seen(1, 1, 2), seen(2, 2, 3)
    for shown in (first, first, second, second):
        telling.heard(shown, word(shown))
    assert lines[1:] == [
        "revision 1 of llama: 2 servers, acknowledged",
        "revision 2 of llama: 2 servers (+1 -1), acknowledged",
    ]


def test_a_view_that_is_not_complete_removes_nothing(telling, lines):
    """And the line says so."""
    later = Epoch(1764201600000, 2)
    for shown in (seen(1, 1, 2), seen(1, 3, epoch=later, complete=False)):
        telling.heard(shown, word(shown))
    assert lines[2] == f"follows the master {later} of llama"
    assert lines[3].startswith("revision 1 of llama: 1 server (+1 -0), acknowledged; it is not")


def test_a_word_of_another_revision_is_no_news(telling, lines):
    """It was given before the newest view was applied."""
    telling.heard(seen(2, 1), word(seen(1, 1)))
    telling.heard(None, word(seen(1, 1)))
    assert lines == []


def test_what_the_discovery_complains_of_is_told_once(telling, lines):
    """What failed as a whole was told before."""
    shown = seen(3, 1)
    telling.failure(ApplyFailure(shown, "away", 1.0))
    telling.heard(shown, word(shown, "away"))
    telling.failure(None)
    for _ in range(2):
        telling.heard(shown, word(shown, "no address for gpu1"))
    telling.heard(shown, word(shown))
    assert lines == [
        "revision 3 of llama is not applied: away",
        "revision 3 of llama is applied only in part: no address for gpu1",
        "revision 3 of llama is now applied in full",
        f"follows the master {shown.epoch} of llama",
        "revision 3 of llama: 1 server, acknowledged",
    ]


def test_a_lost_way_is_told_when_it_is_lost_and_found(telling, lines):
    """Another reason of the same kind is no news; being refused is another kind."""
    refused = NotAuthorizedError("anonymous", "view")
    for lost in (None, UnreachableError("a"), OSError("b"), refused, refused, None, None):
        telling.way(lost)
    assert [line.partition(":")[0] for line in lines] == [
        "no master of llama answers",
        "access to the master of llama was denied",
        "the master of llama answers again",
    ]


def test_a_word_that_does_not_arrive_is_told_when_that_lasts(telling, lines):
    """A refusal at once."""
    for _ in range(SILENT_TIMES - 1):
        telling.unheard(UnreachableError("gone"))
    assert lines == []
    for _ in range(3):
        telling.unheard(UnreachableError("gone"))
    assert lines == ["the master of llama rejects the acknowledgement: gone"]
    telling.heard(None, word(seen(1)))
    for _ in range(2):
        telling.unheard(RefusedError("no"))
    assert len(lines) == 2
