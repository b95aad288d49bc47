"""`tarn dashboard`: what is printed, and what a browser is started with."""

import stat
import webbrowser
from pathlib import Path

import pytest
from fake_fleet import API_TOKEN, URL, FakeFleet

from tarn.cli import run
from tarn.errors import RefusedError

YAML = "name: demo\nmodels: models\nruntime: {use: fake}\n"


@pytest.fixture
def tarn(fleet: FakeFleet, capsys):
    """Run a command line beside a cluster that runs; return its exit code, stdout and stderr."""
    Path("tarn.yaml").write_text(YAML)
    assert run(["up", "--no-wait"], fleet.environment) == 0
    (fleet.directory / "api_token").write_text(API_TOKEN)
    capsys.readouterr()

    def command(*arguments: str):
        code = run(["dashboard", *arguments], fleet.environment)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def test_it_prints_the_link_alone_and_says_how_long_it_is_good(tarn) -> None:
    """Standard output is what a script takes."""
    assert tarn() == (
        0,
        f"{URL}/dashboard#code=c0de\n",
        "The link signs in once, within a minute.\n",
    )


def test_without_an_api_token_nothing_is_said_of_a_link(tarn, fleet: FakeFleet) -> None:
    """There is only the page."""
    fleet.refusal = RefusedError("no token is asked for")
    assert tarn("-c", "demo") == (0, f"{URL}/dashboard\n", "")


def test_a_browser_is_started_without_the_code_in_its_arguments(
    tarn, fleet: FakeFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets a file that its owner alone may read; a real program stands for the browser."""
    seen, browser = tmp_path / "arguments", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {seen}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.setattr(webbrowser, "_tryorder", None)  # it is looked for once in a process
    code, out, err = tarn("--open")
    assert (code, out) == (0, f"{URL}/dashboard#code=c0de\n")
    page = fleet.home / "dashboard-demo.html"
    assert seen.read_text().split() == [page.as_uri()]
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert "No browser" not in err
