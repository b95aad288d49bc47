"""Updates as people ask for them, and what undoes one."""

import attrs
import pytest
from given import NOW_S, codes, ended, fleet, name, reading, ready, rules, starting, step, told

from tarn.domain import BeginUpdate, EditionFiles, HoldUpdate, Rollback
from tarn.domain.apply_command import apply_command
from tarn.domain.fleet import Fleet
from tarn.domain.spec import UpdateSpec
from tarn.domain.update import judge
from tarn.errors import RefusedError

FIRST, SECOND = (EditionFiles(digest, digest, {}) for digest in ("first", "second"))
WIDER = EditionFiles("wider", "first", {})
"""Its instances are those of the first one."""
RULES = rules(update=UpdateSpec(watch_s=0.0))


def running(*instances) -> Fleet:
    return fleet(*instances, editions=(FIRST,))


def ask(some: Fleet, command) -> tuple[Fleet, str]:
    some, done = apply_command(some, command, RULES, now_s=NOW_S, at=NOW_S)
    return some, done.message


def begun(*instances) -> Fleet:
    some, _ = ask(running(*instances), BeginUpdate(SECOND, ("models.repository: a -> b",)))
    return some


def test_an_update_begins_with_what_changes() -> None:
    some, said = ask(running(), BeginUpdate(SECOND, ("models.repository: a -> b",)))
    assert said == "update 1 begins"
    assert some.edition == SECOND
    assert some.events[-1].code == "TARN-1180"
    assert some.events[-1].message == "update 1: models.repository: a -> b"
    assert some.spec_revision == 2


def test_what_replaces_no_instance_is_done_at_once() -> None:
    some, said = ask(running(), BeginUpdate(WIDER, ("replicas.max: 3 -> 5",)))
    assert "no instance has to be replaced" in said
    assert some.update is None
    assert (some.edition, some.updated.number) == (WIDER, 1)


def test_one_at_a_time() -> None:
    some = begun()
    with pytest.raises(RefusedError, match="update 1 is on its way"):
        ask(some, BeginUpdate(WIDER, ()))
    again, said = ask(some, BeginUpdate(SECOND, ()))
    assert (again, said) == (some, "update 1 begins"), "a question that is asked twice is no second"


def test_a_rollback_in_the_middle_goes_back() -> None:
    some, said = ask(begun(), Rollback(1))
    assert (said, some.edition) == ("update 1 is undone", FIRST)
    assert ask(some, Rollback(1))[1] == "update 1 is being undone already"


def test_a_rollback_afterwards_is_an_update_to_the_edition_before() -> None:
    some = attrs.evolve(begun(), update=None)
    some, said = ask(some, Rollback(1))
    assert said == "update 2 begins: back to what update 1 replaced"
    assert some.edition == FIRST
    kept, said = ask(some, Rollback(1))
    assert (kept, said) == (some, "update 2 has come after update 1")


@pytest.mark.parametrize("command", [Rollback(), HoldUpdate(held=True)])
def test_without_an_update_there_is_nothing_to_undo_or_to_hold(command) -> None:
    with pytest.raises(RefusedError) as caught:
        ask(running(), command)
    assert caught.value.code == "TARN-1186"


def test_while_it_is_held_nobody_is_replaced() -> None:
    some, said = ask(begun(ready(1, spec_hash="first")), HoldUpdate(held=True))
    assert said == "update 1 waits"
    some = step(some, RULES)
    assert [i.retiring for i in some.instances] == [None]
    some, _ = ask(some, HoldUpdate(held=False))
    assert step(some, RULES).instances[0].retiring is not None


def test_a_wrong_answer_to_the_smoke_undoes_it() -> None:
    some = begun(starting(1, spec_hash="second"))
    wrong = attrs.evolve(reading(1), wrong="output 'OUT' is 2, not 1")
    some = judge(some, (), {name(1): wrong}, NOW_S)
    assert "fails update.smoke: output 'OUT' is 2, not 1" in some.update.undone
    assert codes(some)[-1] == "TARN-1183"


def test_what_failed_before_it_began_does_not_count() -> None:
    """The same spec is tried once more, after its models were mended."""
    some = told(running(starting(1, spec_hash="second")), ended(1, "no weights"))
    some, _ = ask(attrs.evolve(some, next_number=2), BeginUpdate(SECOND, ()))
    assert judge(some, (), {}, NOW_S).update.undone == ""


def test_an_end_of_a_new_instance_undoes_it_but_not_the_fault_of_a_node() -> None:
    new = attrs.evolve(begun(), instances=(starting(1, spec_hash="second"),))
    some = told(new, ended(1, "no weights"))
    assert "no weights" in judge(some, (), {}, NOW_S).update.undone
    nodes = ended(1, "the node was lost")
    nodes = attrs.evolve(nodes, exit=attrs.evolve(nodes.exit, node_fault=True))
    some = told(new, nodes)
    assert judge(some, (nodes,), {}, NOW_S).update.undone == ""
