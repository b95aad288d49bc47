"""Verbs that plugins bring, from the command line."""

from pathlib import Path

import click
import pytest

from tarn.cli import run
from tarn.cluster import Surroundings
from tarn.hookspecs import hookimpl
from tarn.interfaces import ClientContext, Progress
from tarn.plugins import load


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
    around = Surroundings({"TARN_HOME": str(tmp_path)}, lambda: load([Whereabouts()]))
    assert run(["whereabouts"], around) == 0
    said = capsys.readouterr()
    assert said.out == f"{tmp_path}\n"
    assert said.err == "looking: around\n"


def test_the_sandbox_is_a_verb_that_says_where_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below TARN's home, unless a directory is named."""
    around = Surroundings({"TARN_HOME": str(tmp_path)})
    assert run(["sandbox", "status"], around) == 3
    assert f"{tmp_path}/sandbox: there is no sandbox here" in capsys.readouterr().err
    assert run(["sandbox", "down", "--directory", str(tmp_path / "x")], around) == 3
    assert f"{tmp_path}/x: there is no sandbox" in capsys.readouterr().err
