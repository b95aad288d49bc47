"""Which variable comes of which secret, and what cannot be given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.cluster.given_secrets import StoredSecret, environ, problems, variables
from tarn.domain import Secret

NAMES = st.text("abcXYZ_09", min_size=1).filter(lambda text: not text[0].isdigit())


def held(name: str, *names: str, value: str = "v", where: str = "secrets[0]") -> StoredSecret:
    return StoredSecret(where, name, names, Secret(value))


@pytest.mark.parametrize(
    ("name", "chosen", "expected"),
    [
        ("huggingface.token", {}, ("HUGGING_FACE_HUB_TOKEN", "HF_TOKEN")),
        ("HuggingFace.Token", {}, ("HUGGING_FACE_HUB_TOKEN", "HF_TOKEN")),
        ("huggingface.token", {"huggingface.token": "HF"}, ("HF",)),
        ("tarn.env.aws_key", {}, ("AWS_KEY",)),
        ("tarn.env.aws_key", {"tarn.env.aws_key": "aws_key"}, ("aws_key",)),
        ("ngc", {"ngc": "NGC_API_KEY"}, ("NGC_API_KEY",)),
        ("tarn.tls.keystore.password", {}, ()),
        ("mytarn.env.x", {}, ()),
    ],
)
def test_a_name_says_what_it_becomes(
    name: str, chosen: dict[str, str], expected: tuple[str, ...]
) -> None:
    """The user's choice counts instead of the rule; any other name reaches no instance."""
    assert variables(name, chosen) == expected


@given(st.dictionaries(NAMES, st.text(alphabet=st.characters(exclude_characters="\0"))))
def test_what_is_fine_arrives_whole(values: dict[str, str]) -> None:
    """Every secret of its own variable is given, with its value, and nothing else is."""
    those = [held(name, name, value=value) for name, value in values.items()]
    assert list(problems(those, {})) == []
    assert {n: s.reveal() for n, s in environ(those).items()} == values


@given(st.lists(st.tuples(NAMES, NAMES), min_size=1), st.sets(NAMES))
def test_no_variable_is_ever_given_twice(pairs: list[tuple[str, str]], env: set[str]) -> None:
    """Without a problem each variable has one source; with two sources there is a problem."""
    those = [held(name, variable) for name, variable in pairs]
    doubled = len({v for _, v in pairs}) < len({(n, v) for n, v in pairs})
    doubled |= len({n for n, _ in pairs}) < len(pairs) or bool(env & {v for _, v in pairs})
    assert bool(list(problems(those, dict.fromkeys(env, "x")))) == doubled


@pytest.mark.parametrize(
    ("those", "said"),
    [
        ([held("a", "A-B")], "'a' would become 'A-B', which is not a valid variable name"),
        ([held("a", "")], "'a' would become '', which is not a valid variable name"),
        ([held("a", "A", value="x\0y")], "'a' has a byte 0 in it"),
        ([held("a", "A", value="x" * 131_072)], "'a' is too long"),
        ([held("a", "A"), held("b", "A")], "'a' and 'b' would both become A"),
        ([held("a"), held("a", where="secrets[1]")], "has a secret 'a', which secrets[0] has, too"),
        ([held("a", "SET")], "'a' would become SET, which triton.env sets, too"),
    ],
)
def test_what_cannot_be_given_is_said_without_its_value(
    those: list[StoredSecret], said: str
) -> None:
    """Place and name are told; a value never is."""
    ((where, found),) = problems(those, {"SET": "x"})
    assert where == those[-1].where
    assert said in found
    assert "xxx" not in found


def test_what_no_instance_gets_may_be_anything() -> None:
    """The password of a keystore may hold what no environment variable can."""
    assert list(problems([held("tls", value="a\0b")], {})) == []
