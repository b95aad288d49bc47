"""`tarn compat`: each command of the Java TARN among the data, and what it means here."""

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from compat.golden import FOLDER, Golden, goldens, printed

from tarn import config
from tarn.cli.verbs import root
from tarn.cluster.start.launch import flat
from tarn.config import compat
from tarn.config.aliases import ALIASES
from tarn.errors import ConfigError

EVERY = list(goldens())
IDS = [golden.path.stem for golden in EVERY]
TRANSLATED = [golden for golden in EVERY if not golden.refused]


def test_there_are_the_guides_own_commands_and_many_others() -> None:
    """Eleven stand in the documents of the Java TARN."""
    guides = [name for name in IDS if name.startswith("guide-")]
    assert len(guides) == 11
    assert len(IDS) - len(guides) >= 20
    assert {golden.path for golden in EVERY} == set(FOLDER.iterdir())


@pytest.mark.parametrize("golden", EVERY, ids=IDS)
def test_a_command_is_printed_as_expected(golden: Golden) -> None:
    """Byte for byte, comments and refusals included."""
    assert printed(golden.command) == (golden.refused, golden.expected)


@pytest.mark.parametrize("golden", TRANSLATED, ids=[golden.path.stem for golden in TRANSLATED])
def test_what_is_printed_loads_and_says_no_more_than_it_shows(
    golden: Golden, tmp_path: Path
) -> None:
    """Each line of the YAML is in the spec, and all the rest of the spec is default."""
    (tmp_path / "tarn.yaml").write_text(golden.expected, "utf-8")
    loaded = config.load(tmp_path, environ={})
    spec = dict(flat(config.dump(loaded.spec)))
    shown = dict(flat(yaml.safe_load(golden.expected)))
    assert {path: spec[path] for path in shown} == shown
    origins = {path: origin for path, origin in loaded.origins.items() if path != "name"}
    assert {path for path, origin in origins.items() if origin != "default"} == set(shown)
    assert loaded.notes == ()


@pytest.mark.parametrize("golden", TRANSLATED, ids=[golden.path.stem for golden in TRANSLATED])
def test_the_options_of_tarn_up_mean_the_same(golden: Golden, tmp_path: Path) -> None:
    """Whether a site takes the YAML or gives its old options to `tarn up`, the spec is one."""
    (tmp_path / "tarn.yaml").write_text(golden.expected, "utf-8")
    theirs = compat.read_command(compat.split_command(golden.command))
    given = {
        k: v for k, v in theirs.options.items() if k != "otel-endpoint" and not _placeholder(v)
    }
    base = {"name": "w", "models": "hdfs:///models", "runtime": "yarn", "scaling": "threshold"}
    ours = config.load(tmp_path, arguments={"name": "w"}, environ={}).spec
    direct = config.load(base, aliases=given, environ=theirs.environ).spec
    left, right = dict(flat(config.dump(ours))), dict(flat(config.dump(direct)))
    differing = {path for path in left.keys() | right.keys() if left.get(path) != right.get(path)}
    masked = {path for path in left if left[path] == "***"}
    assert differing - masked <= {"api.token", "instance.resources.gpus"}


def _placeholder(value: object) -> bool:
    return isinstance(value, str) and value.startswith("[")


@pytest.mark.parametrize("golden", EVERY, ids=IDS)
def test_no_secret_is_seen_again(golden: Golden) -> None:
    """Not in the YAML, not in a comment, not in a refusal."""
    assert [secret for secret in golden.secrets if _seen(secret, golden.expected)] == []


def _seen(secret: str, text: str) -> bool:
    return bool(secret) and not secret.startswith("[") and secret in text


def test_some_commands_do_have_secrets() -> None:
    """Or the test before would see nothing."""
    found = {secret for golden in EVERY for secret in golden.secrets}
    assert {"my-secret-token", "s3same", "from-environment", "hf_verysecret", "hunter2"} <= found


@pytest.mark.parametrize("alias", [a for a in ALIASES if a.long], ids=lambda alias: alias.long)
def test_every_option_is_read_by_both_of_its_names(alias: config.Alias) -> None:
    """Short, long, and with an equals sign."""
    value: object = True if alias.is_flag else ["7"] if alias.multiple else "7"
    ways = [[f"--{alias.long}"] if alias.is_flag else [f"--{alias.long}", "7"]]
    if alias.short:
        ways.append([f"-{alias.short}"] if alias.is_flag else [f"-{alias.short}", "7"])
    if not alias.is_flag:
        ways.append([f"--{alias.long}=7"])
    for words in ways:
        assert compat.read_command(words).options == {alias.long: value}


def test_half_of_a_token_that_stands_alone_is_not_shown() -> None:
    """An unquoted blank splits it, and the second half is no option."""
    refused, text = printed("yarn jar x.jar varga.tarn.yarn.Client --token correct horse")
    assert not refused
    assert "horse" not in text
    assert "correct" not in text
    assert "a word is not an option" in text


def test_nothing_in_a_command_is_executed(tmp_path: Path) -> None:
    """Neither substitutions nor what stands behind a semicolon."""
    mark = tmp_path / "mark"
    text = f"yarn jar x.jar varga.tarn.yarn.Client -e A=$(touch {mark}) -e 'B=`id`' ; touch {mark}"
    printed(text)
    assert not mark.exists()
    quoted = f"yarn jar x.jar varga.tarn.yarn.Client -e 'A=$(touch {mark})'"
    assert f"A: $(touch {mark})" in printed(quoted)[1]
    assert not mark.exists()


def test_a_negative_number_is_a_value_and_not_an_option() -> None:
    """So the message is about the value."""
    assert compat.read_command(["--scale-down", "-0.5"]).options == {"scale-down": "-0.5"}


def test_what_stands_behind_two_dashes_is_no_option() -> None:
    """As in any command."""
    assert compat.read_command(["-p", "1", "--", "-p", "2"]).options == {"port": "1"}


@pytest.mark.parametrize("words", [["--port", "--image", "x"], ["-p", "-i", "x"], ["--port"]])
def test_an_option_is_not_taken_for_a_value(words: list[str]) -> None:
    """The error names the option that lacks one."""
    with pytest.raises(ConfigError, match="--port: needs a value"):
        compat.read_command(words)


def test_the_verb_takes_one_text_or_the_words() -> None:
    """With or without quotes around the whole; its own help stays its own."""
    text = "TRITON_PORT=9 yarn jar x.jar varga.tarn.yarn.Client -m /m -max 3 -h-is-no-option"
    words = text.removesuffix(" -h-is-no-option").split()
    whole = CliRunner().invoke(root, ["compat", " ".join(words)])
    apart = CliRunner().invoke(root, ["compat", *words])
    assert whole.exit_code == apart.exit_code == 0
    assert whole.stdout == apart.stdout
    assert re.search(r"^  http_port: 9$", whole.stdout, re.MULTILINE)
    assert "max: 3" in whole.stdout
    assert "COMMAND" in CliRunner().invoke(root, ["compat", "--help"]).stdout


def test_the_page_shows_what_is_printed() -> None:
    """The command of the how-to, and its YAML."""
    page = (Path(__file__).parents[2] / "docs/how-to/move-from-the-java-tarn.md").read_text("utf-8")
    command = re.search(r"\$ tarn compat '(.*?)' > tarn.yaml", page, re.DOTALL)
    shown = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert command is not None
    assert shown is not None
    assert printed(command[1]) == (False, shown[1])
