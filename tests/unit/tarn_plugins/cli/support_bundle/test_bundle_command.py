import json
import stat
import tarfile
from pathlib import Path

import pytest
from fake_fleet import API_TOKEN, FakeFleet

from tarn.cli import run


@pytest.fixture
def tarn(fleet: FakeFleet, capsys: pytest.CaptureFixture[str]):
    """Run a command line; return its exit code, stdout and stderr."""
    Path("tarn.yaml").write_text("name: demo\nmodels: models\nruntime: {use: fake}\n")

    def command(*arguments: str):
        code = run(arguments, fleet.environment)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def test_the_file_is_named_by_cluster_and_time(tarn, fleet) -> None:
    """Its path is the result; how much was taken out is talk."""
    tarn("up", "--no-wait")
    (fleet.directory / "api_token").write_text(API_TOKEN)
    code, out, err = tarn("support-bundle", "--without", "doctor", "--names", "who.json")
    assert code == 0
    path = Path(out.strip())
    assert path.name.startswith("tarn-demo-")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with tarfile.open(path) as tar:
        assert f"{path.name.removesuffix('.tar.gz')}/README.txt" in tar.getnames()
    assert "Look through it before you share it" in err
    assert isinstance(json.loads(Path("who.json").read_text()), dict)
    assert stat.S_IMODE(Path("who.json").stat().st_mode) == 0o600
    assert tarn("support-bundle", "-o", str(path), "--without", "doctor")[0] == 2


def test_a_dry_run_lists_and_writes_nothing(tarn) -> None:
    """A cluster that never ran has a spec here, and this machine."""
    code, out, _ = tarn("support-bundle", "--dry-run", "--without", "doctor")
    assert code == 0
    assert "config/spec.json" in out
    assert "machine/platform.json" in out
    assert not list(Path().glob("*.tar.gz"))


def test_an_unknown_name_is_not_found(tarn) -> None:
    """Nothing at all is known under it: a bundle would be about nothing."""
    code, _, err = tarn("support-bundle", "-c", "nope")
    assert code == 3
    assert "TARN-4000" in err


def test_a_size_is_refused_in_plain_words(tarn) -> None:
    """As every number on a command line is."""
    code, _, err = tarn("support-bundle", "--log-mib", "-1")
    assert code == 2
    assert "-1 is too small; it must be at least 0" in err
