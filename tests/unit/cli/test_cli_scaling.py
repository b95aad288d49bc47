"""`tarn scaling explain`."""

import json
from collections.abc import Callable

import pytest
import yaml
from fake_fleet import FakeFleet, scaling

from tarn.cli import run
from tarn.cluster import Cluster

Tarn = Callable[..., tuple[int, str]]


@pytest.fixture
def tarn(fleet: FakeFleet, capsys: pytest.CaptureFixture[str]) -> Tarn:
    """The command line, with a cluster that runs."""
    plain = {"name": "demo", "models": "models", "runtime": {"use": "fake"}}
    Cluster(plain, environment=fleet.environment).up()

    def call(*arguments: str) -> tuple[int, str]:
        code = run(arguments, fleet.environment)
        return code, capsys.readouterr().out

    return call


def test_a_person_reads_a_sentence_first(tarn: Tarn) -> None:
    """What is, and what happens next and when; then what it was made of."""
    code, out = tarn("scaling", "explain", "-c", "demo")
    assert code == 0
    assert out.splitlines()[0] == scaling()["sentence"]
    assert "SIGNAL" in out
    assert "DECIDED" in out


@pytest.mark.parametrize(("form", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_a_program_reads_the_answer_of_the_api(
    tarn: Tarn, form: str, parse: Callable[[str], object]
) -> None:
    """Nothing is left out, nothing renamed."""
    code, out = tarn("scaling", "explain", "-c", "demo", "-o", form)
    assert (code, parse(out)) == (0, scaling())


def test_the_group_alone_says_what_it_can(tarn: Tarn) -> None:
    """And exits as click does."""
    assert "explain" in tarn("scaling", "--help")[1]
