"""Known secrets are taken out of text."""

from canaries import canary
from canaries import forms as canary_forms
from hypothesis import given
from hypothesis import strategies as st

from tarn.plain import MASK, SecretMasker, forms, masked

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


@given(before=texts, after=texts, secret=st.text('abc+/%=é"\\ ', min_size=8, max_size=24))
def test_a_secret_is_found_between_anything(before: str, after: str, secret: str) -> None:
    """As it is, and in each encoding of it."""
    hiding = SecretMasker([secret])
    for form in forms(secret):
        assert form not in hiding.text(f"{before}{form}{after}")


def test_each_form_of_a_canary_is_hidden() -> None:
    """What our watchers look for, nobody reads."""
    secret = canary("some")
    hiding = SecretMasker()
    hiding.add(secret)
    for form in canary_forms(secret):
        assert hiding.text(f"<{form.decode()}>") == f"<{MASK}>"


def test_values_keep_their_shape() -> None:
    """Numbers and nothing stay; texts are looked through wherever they stand."""
    hiding = SecretMasker(["correct horse"])
    plain = {"a": ["correct horse", 1, None, True], "b": {"correct horse": "http://u:p@h/"}}
    assert hiding.value(plain) == {"a": [MASK, 1, None, True], "b": {MASK: f"http://{MASK}@h/"}}
    assert hiding.value(("x",)) == ["x"]


def test_a_text_without_secrets_stays() -> None:
    """A short one is not hidden: it would be found in every other word."""
    hiding = SecretMasker([b"abc", "longer secret"])
    assert hiding.text("abc of all") == "abc of all"
    assert hiding.text("") == ""


@given(st.text("tokenpasswrd=@:/-_x y&", max_size=60))
def test_what_looks_like_a_secret_is_masked_as_everywhere(text: str) -> None:
    """Looking first whether there is anything to mask changes nothing."""
    assert SecretMasker().text(text) == masked(text)
