"""Verbs that plugins bring, from the command line."""

from pathlib import Path

import attrs
import click
import pytest
from fake_fleet import URL, FakeFleet, FakePlugin

from tarn.cli import run
from tarn.cluster import ClusterEnvironment
from tarn.hookspecs import hookimpl
from tarn.interfaces import ClientContext, Progress
from tarn.plugins import load
from tarn.release import version


class Whereabouts:
    """A plugin with a verb that says where TARN's home is."""

    @hookimpl
    def tarn_cli(self, commands: click.Group) -> None:
        @commands.command("whereabouts")
        def command() -> None:
            context = click.get_current_context().meta["tarn.context"]
            assert isinstance(context, ClientContext)
            context.progress(Progress("looking", "around"))
            click.echo(context.paths.home)


def test_a_plugin_s_verb_finds_the_context_of_the_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Environment and paths, and who hears of progress."""
    around = ClusterEnvironment({"TARN_HOME": str(tmp_path)}, lambda: load([Whereabouts()]))
    assert run(["whereabouts"], around) == 0
    said = capsys.readouterr()
    assert said.out == f"{tmp_path}\n"
    assert said.err == "looking: around\n"


class Failing:
    """A plugin whose verbs cannot be added."""

    @hookimpl
    def tarn_cli(self, commands: click.Group) -> None:
        raise LookupError("no such thing")


def test_a_plugin_that_fails_takes_no_other_verb_along(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence names it; the other plugins' verbs and `--help` work."""
    plugins = load([Failing(), Whereabouts()], points=())
    around = ClusterEnvironment({"TARN_HOME": str(tmp_path)}, lambda: plugins)
    assert run(["whereabouts"], around) == 0
    said = capsys.readouterr()
    assert said.out == f"{tmp_path}\n"
    (line,) = [line for line in said.err.splitlines() if "Failing" in line]
    assert "tarn_cli raised LookupError: no such thing; its verbs are missing" in line
    assert run(["--help"], around) == 0
    assert "Traceback" not in capsys.readouterr().err


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"tarn, version {version()}\n"


class Searching:
    """A plugin with a verb that asks who finds a master."""

    @hookimpl
    def tarn_cli(self, commands: click.Group) -> None:
        @commands.command("searching")
        @click.argument("name", required=False)
        def command(name: str | None) -> None:
            meta = click.get_current_context().meta
            for token in (None, lambda: "given"):
                source = meta["tarn.find"](name, token)
                api = source.open()
                click.echo(f"{source.name} {api.url} {api.api_token}")
                api.close()


def test_a_plugin_s_verb_finds_the_master_of_a_cluster(
    fleet: FakeFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its name, or the one that is meant by default; the api token may be another's."""
    Path("tarn.yaml").write_text("name: demo\nmodels: models\nruntime: {use: fake}\n")
    assert run(["up", "--no-wait"], fleet.environment) == 0
    token = (fleet.directory / "api_token").read_text().strip()
    around = attrs.evolve(
        fleet.environment, plugins=lambda: load([FakePlugin(fleet), Searching()], points=())
    )
    capsys.readouterr()
    for words in (["searching", "demo"], ["searching"]):
        assert run(words, around) == 0
        assert capsys.readouterr().out == f"demo {URL} {token}\ndemo {URL} given\n"
    assert run(["searching", "nobody"], around) == 3


def test_the_sandbox_is_a_verb_that_says_where_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below TARN's home, unless a directory is named."""
    around = ClusterEnvironment({"TARN_HOME": str(tmp_path)})
    assert run(["sandbox", "status"], around) == 3
    assert f"{tmp_path}/sandbox: there is no sandbox here" in capsys.readouterr().err
    assert run(["sandbox", "down", "--directory", str(tmp_path / "x")], around) == 3
    assert f"{tmp_path}/x: there is no sandbox" in capsys.readouterr().err
