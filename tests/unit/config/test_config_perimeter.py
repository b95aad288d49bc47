"""What contradicts itself in trusted proxies: said before anything starts, all of it at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.config.contradictions import perimeter_contradictions
from tarn.domain.spec import ApiSpec, SpnegoSpec, TlsSpec, TrustedProxy

LB = TrustedProxy("lb1", "10.0.0.5", "token", token="file:/lb1.token")


def problems(*proxies: TrustedProxy, **api: object) -> list[str]:
    found = perimeter_contradictions(ApiSpec(trusted_proxies=proxies, **api))
    return [f"{one.path} {one.text}" for one in found]


def test_what_fits_together_is_no_problem() -> None:
    """Each kind of proof with what it needs."""
    gate = TrustedProxy("gate", "10.0.1.0/24")
    knox = TrustedProxy("knox", "fd00::/64", "kerberos", users=(), groups=("analysts",))
    tls, spnego = TlsSpec(cert="/c", client_ca="/ca"), SpnegoSpec("/k")
    assert problems(LB, gate, knox, tls=tls, spnego=spnego) == []


@pytest.mark.parametrize(
    ("address", "right"),
    [
        ("10.0.0.5/24", "10.0.0.5 or 10.0.0.0/24"),
        ("lb1.example.com", "10.0.0.0/24"),
        ("10.0.0", "10.0.0.0/24"),
        ("", "10.0.0.0/24"),
        ("10.0.0.0/33", "10.0.0.0/24"),
        ("*", "10.0.0.0/24"),
    ],
)
def test_an_address_that_is_none(address: str, right: str) -> None:
    """Mostly a network of an address was meant; a name could be anybody's tomorrow."""
    (found,) = problems(TrustedProxy("lb1", address, "token", token="env:LB"))
    assert found.startswith(f"api.trusted_proxies[0].address = '{address}' is neither an address")
    assert right in found


def test_a_proof_that_cannot_be_checked() -> None:
    """Tickets need the master's keytab, tokens a source."""
    found = problems(
        TrustedProxy("b", "10.0.0.2", "kerberos"),
        TrustedProxy("c", "10.0.0.3", "token"),
        TrustedProxy("d", "10.0.0.4", "token", token="hunter2-hunter2-hunter2"),
    )
    assert [one.split(" ")[0] for one in found] == [
        "api.trusted_proxies[0].authenticated_by",
        "api.trusted_proxies[1].token",
        "api.trusted_proxies[2].token",
    ]
    assert "api.spnego" in found[0]
    assert "hunter2" not in "".join(found)


def test_two_of_one_name_a_token_too_many_and_nobody_to_speak_for() -> None:
    """Each is a mistake that would otherwise be found by its effect."""
    found = problems(
        LB,
        LB,
        TrustedProxy("g", "10.0.0.9", "kerberos", token="env:G", users=()),
        spnego=SpnegoSpec("/k"),
    )
    assert len(found) == 3
    assert "twice" in found[0]
    assert found[1].startswith("api.trusted_proxies[2].token is given")
    assert "nobody" in found[2]


def test_groups_beside_everybody_are_a_mistake() -> None:
    """Whoever names a group means its members; the default of `users` would be everybody."""
    (found,) = problems(TrustedProxy("g", "10.0.0.9", "token", token="env:G", groups=("a",)))
    assert found.startswith("api.trusted_proxies[0].groups is given")
    assert "users: []" in found


@given(st.text(max_size=30))
def test_any_text_is_a_problem_or_a_network(address: str) -> None:
    """And none is an error."""
    assert len(problems(TrustedProxy("lb1", address, "token", token="env:LB"))) <= 1
