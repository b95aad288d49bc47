"""Who asks which requests reach the same instance, and what each may see of it."""

import asyncio
import json

import attrs
import httpx
import pytest
from fake_master import FakeMaster, PolicyAuthorizer, instance, snapshot

from tarn.domain import AffinityRule
from tarn.domain.affinity import AffinityStatus, read_rules
from tarn.http.blocking_pool import DirectAuthorizer
from tarn.http.feed import Feed, fleet_changes
from tarn.http.visibility import VisibilityFilter
from tarn.read.snapshot import Board, Snapshot

SHOWN, SECRET = "shown", "secret"
RULES = (
    AffinityRule((SECRET,), "sequence", idle_s=65.0),
    AffinityRule((SHOWN, SECRET), "header", header="X-Session", idle_s=10.0),
    AffinityRule((), "json", path="prompt", first_bytes=64, imbalance=125),
)
MAY = {("anonymous", "view", ""), ("anonymous", "list", SHOWN), ("anonymous", "metadata", SHOWN)}


def picture(status: AffinityStatus) -> Snapshot:
    models = tuple((name, "READY", "") for name in (SHOWN, SECRET))
    return snapshot(instance(1, models=models), affinity=status)


def answer(rights: set[tuple[str, str, str]] | None) -> httpx.Response:
    """Return the answer to a user with these rights; None: every right."""
    gate = {} if rights is None else {"gate": DirectAuthorizer(PolicyAuthorizer(rights=rights))}
    with (
        FakeMaster(picture(AffinityStatus(RULES, complete=True)), api_token=None, **gate) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        return web.get("/affinity")


def test_the_rules_are_answered_as_they_are() -> None:
    """A client reads the same rules from it."""
    got = answer(None)
    assert got.status_code == 200
    assert got.json()["complete"] is True
    assert read_rules(got.json()) == RULES
    assert got.json()["rules"][0] == {
        "models": [SECRET], "key": "sequence", "header": "X-TARN-Affinity", "path": "",
        "first_bytes": 0, "imbalance": 0, "idle_s": 65.0,
    }  # fmt: skip


def test_a_hidden_model_is_in_no_rule_and_no_rule_gets_wider() -> None:
    """A rule without its last model is left out: without models it would name all."""
    got = answer(MAY).json()
    assert [(rule["models"], rule["key"]) for rule in got["rules"]] == [
        ([SHOWN], "header"),
        ([], "json"),
    ]
    assert got["complete"] is False
    assert SECRET not in json.dumps(got)


def test_who_may_follow_gets_all_rules() -> None:
    """A load balancer without a rule would give wrong answers."""
    got = answer(MAY | {("anonymous", "follow", "")})
    assert read_rules(got.json()) == RULES
    assert got.json()["complete"] is True


def test_who_may_not_view_gets_nothing() -> None:
    """The same right as for the instances."""
    assert answer(set()).status_code == 403


def test_the_stream_carries_the_rules_when_they_change() -> None:
    """A new reader gets them first; while nothing is known, nothing is said."""

    async def story() -> None:
        blank = picture(AffinityStatus())
        feed = Feed(Board(blank), fleet_changes)
        reader = feed.read(None)
        assert "event: affinity" not in await anext(reader)
        known = attrs.evolve(blank, affinity=AffinityStatus(RULES, complete=True))
        feed.fold(known)
        text = await anext(reader)
        said = text.partition("event: affinity\ndata: ")[2].partition("\n")[0]
        assert read_rules(json.loads(said)) == RULES
        feed.fold(attrs.evolve(known, desired=5))
        assert "event: affinity" not in await anext(reader)
        assert "event: affinity" in await anext(feed.read(None))

    asyncio.run(asyncio.wait_for(story(), 10))


@pytest.mark.parametrize("names", [{SECRET}, {SHOWN, SECRET}])
def test_the_stream_hides_models_too(names: set[str]) -> None:
    """As the page does."""

    async def story() -> None:
        feed = Feed(Board(picture(AffinityStatus(RULES, complete=True))), fleet_changes)

        async def hides() -> VisibilityFilter:
            return VisibilityFilter(frozenset(names), cluster="llama")

        text = await anext(feed.read(None, hides))
        said = json.loads(text.partition("event: affinity\ndata: ")[2].partition("\n")[0])
        assert said["complete"] is False
        assert len(said["rules"]) == 3 - len(names)
        assert not any(name in json.dumps(said) for name in names)

    asyncio.run(asyncio.wait_for(story(), 10))
