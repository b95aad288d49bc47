import pytest

from tarn.cluster.start.launch import api_token
from tarn.errors import ConfigError


def test_generates_a_new_token_each_time(tmp_path):
    """32 random bytes, never twice the same."""
    first, second = (api_token("auto", {}, tmp_path / "none") for _ in range(2))
    assert first != second
    assert len(first or "") >= 43


def test_takes_over_the_token_of_an_earlier_master(tmp_path):
    """Followers of a fleet that is taken over stay welcome."""
    (tmp_path / "api_token").write_text("kept\n")
    assert api_token("auto", {}, tmp_path / "api_token") == "kept"


def test_reads_a_token_from_file_or_environment(tmp_path):
    """White space around it is nobody's intent."""
    (tmp_path / "t").write_text(" abc\n")
    assert api_token(f"file:{tmp_path}/t", {}, tmp_path / "none") == "abc"
    assert api_token("env:MINE", {"MINE": "xyz"}, tmp_path / "none") == "xyz"
    assert api_token("none", {}, tmp_path / "none") is None


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("file:{}/missing", "cannot be read"),
        ("file:{}", "cannot be read"),
        ("file:{}/empty", "missing or empty"),
        ("file:{}/binary", "not ASCII"),
        ("env:MINE", "missing or empty"),
        ("s3cret", "does not say where the token is"),
    ],
)
def test_says_in_one_line_which_token_cannot_be_had(tmp_path, source, found):
    """Place and reason; never what was found there."""
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=found) as caught:
        api_token(source.format(tmp_path), {}, tmp_path / "none")
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert caught.value.where == "api.token"
