"""The table, which was written before the code, and the rule that gives it."""

import itertools

import pytest
from truth import answer, table

pytestmark = pytest.mark.security

DOORS = ("direct", "trusted proxy", "RM proxy", "Knox")
PROOFS = (
    *("none", "token", "session", "wrong token"),
    *("SPNEGO", "header", "forged header", "cookie"),
)
ACTIONS = (
    "read",
    "list",
    "metadata",
    "authorize self",
    "authorize other",
    "admin",
    "model control",
)


def test_the_rule_gives_every_cell_of_the_table() -> None:
    """All 224 of them, and no cell is missing."""
    cells = itertools.product(DOORS, PROOFS, ACTIONS)
    assert table() == {cell: answer(*cell) for cell in cells}


def test_nobody_is_let_in_by_a_claim() -> None:
    """No proof, a wrong one, or a header that anybody can write is 401, whatever is asked."""
    for proof in ("wrong token", "forged header"):
        for door, action in itertools.product(("direct", "trusted proxy", "RM proxy"), ACTIONS):
            assert table()[door, proof, action] == "401"
    for action in ACTIONS:
        assert table()["direct", "none", action] == table()["direct", "header", action] == "401"
