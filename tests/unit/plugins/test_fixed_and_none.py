"""The two built-ins that have no opinion of their own."""

from pathlib import Path

import attrs
import pytest

from tarn.domain import ANONYMOUS, FleetView, Limits, Principal, Wish
from tarn.domain.access import FLEET_ACTIONS
from tarn.domain.spec import SpnegoSpec
from tarn.testing.context import cluster_spec, master_context
from tarn_plugins.authorizer import none
from tarn_plugins.authorizer.none import NoAuthorizer
from tarn_plugins.scaling.fixed import FixedPolicy, FixedSettings

FLEET = FleetView(now_s=1.0, desired=3, limits=Limits(1, 5))


def test_fixed_keeps_the_size_that_a_person_chose() -> None:
    """Without settings it wants nothing, so `scale` and `replicas.initial` decide."""
    assert FixedPolicy(FixedSettings()).wanted(FLEET) == Wish(None, "the size is fixed by a person")


def test_fixed_wants_what_its_settings_say() -> None:
    """Always the same, whatever is seen; zero is a size."""
    assert FixedPolicy(FixedSettings(4)).wanted(FLEET).replicas == 4
    assert FixedPolicy(FixedSettings(0)).wanted(FLEET).replicas == 0


def test_fixed_refuses_a_negative_size() -> None:
    """A bad value cannot be built."""
    with pytest.raises(ValueError, match="replicas"):
        FixedSettings(-1)


def test_no_authorizer_opens_models_and_says_that_it_is_none() -> None:
    """Nobody mistakes it for a check that was passed."""
    authorizer = NoAuthorizer()
    verdict = authorizer.check(ANONYMOUS, "infer", "ocr")
    assert verdict.allowed
    assert verdict.reason == "no authorizer is configured"
    assert authorizer.ready().ready
    assert authorizer.ready().reason == verdict.reason


@pytest.mark.parametrize("action", [*FLEET_ACTIONS, "scale", ""])
def test_no_authorizer_guards_the_fleet_unless_no_token_does(action: str) -> None:
    """Whoever is only known by name may use models; ``token: none`` opens all, as it says."""
    guarded = NoAuthorizer().check(Principal("bob", via="spnego"), action, "")
    assert not guarded.allowed
    assert "admins" in guarded.reason
    assert NoAuthorizer(open_fleet=True).check(ANONYMOUS, action, "").allowed


@pytest.mark.parametrize(
    ("token", "spnego", "open_fleet"),
    [("none", None, True), ("none", SpnegoSpec("/k"), False), ("auto", None, False)],
)
def test_a_ticket_alone_makes_nobody_an_administrator(
    tmp_path: Path, token: str, spnego: SpnegoSpec | None, open_fleet: bool
) -> None:
    """Without a token, but with tickets: whoever has one is known, and no more than that."""
    api = attrs.evolve(cluster_spec().api, token=token, spnego=spnego)
    context = master_context(tmp_path, spec=attrs.evolve(cluster_spec(), api=api))
    made = none.tarn_authorizers()["none"].create(none.NoneSettings(), context)
    assert made.check(Principal("bob", via="spnego"), "admin", "").allowed is open_fleet
