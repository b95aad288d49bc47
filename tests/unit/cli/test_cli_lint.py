import json
from pathlib import Path

import attrs
import pytest
from fake_fleet import FakeFleet

from tarn.cli import run
from tarn.errors import PluginError
from tarn.hookspecs import LintRule, hookimpl
from tarn.interfaces.lint import LintFinding, Location
from tarn.plugins import load

CONFIG = 'backend: "python"\ninput [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]\n'
OUTPUT = 'output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]\n'


@pytest.fixture
def tarn(fleet: FakeFleet, capsys):
    """Run a command line with the installed plugins; return its exit code, stdout and stderr."""
    environment = attrs.evolve(fleet.environment, plugins=load)

    def command(*arguments: str):
        code = run(arguments, environment)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def model(name: str, head: str = "", files: tuple[str, ...] = ("1/model.py",)) -> Path:
    """Write a model below ``repo``."""
    top = Path("repo") / name
    for file in files:
        (top / file).parent.mkdir(parents=True, exist_ok=True)
        (top / file).write_bytes(b"")
    (top / "config.pbtxt").write_text(head + CONFIG + OUTPUT)
    return top


def test_a_clean_repository_is_exit_0(tarn):
    """Nothing on stdout; the summary on stderr."""
    model("ocr")
    assert tarn("lint", "repo") == (0, "", "1 model: nothing to say\n")


def test_an_error_is_exit_1_and_a_line_that_editors_follow(tarn):
    """Path, line, column, level, code, what was found, what to do."""
    model("ocr", '# text\nname: "text"\n')
    code, out, err = tarn("lint", "repo/")
    assert code == 1
    assert out == (
        "repo/ocr/config.pbtxt:2:1: error TARN-2330: name = 'text', and the directory is 'ocr'. "
        "Expected the same name, or none: Triton takes the directory's. `tarn lint --fix` "
        "removes the line.\n"
    )
    assert err == "1 model: 1 error; --fix repairs 1\n"


def test_a_warning_matters_only_when_asked(tarn):
    """Exit 0 without --strict, 1 with it."""
    model("ocr", "dynamic_batching { }\n")
    code, out, _ = tarn("lint", "repo")
    assert (code, "warning TARN-2341" in out) == (0, True)
    assert tarn("lint", "repo", "--strict")[0] == 1


def test_a_back_end_that_this_machine_lacks_is_noted(fleet, tmp_path, capsys):
    """Of the tritonserver that would be started here; the model may be meant for another one."""
    server = tmp_path / "triton" / "bin" / "tritonserver"
    server.parent.mkdir(parents=True)
    (tmp_path / "triton" / "backends" / "python").mkdir(parents=True)
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    fleet.environ["PATH"] = str(server.parent)
    model("ocr")
    top = model("net", files=("1/model.onnx",))
    (top / "config.pbtxt").write_text('backend: "onnxruntime"\n')
    code = run(("lint", "repo"), attrs.evolve(fleet.environment, plugins=load))
    assert code == 0
    assert capsys.readouterr().out == (
        "repo/net/config.pbtxt:1:1: note TARN-2345: it needs the back end 'onnxruntime', but "
        f"{server} has only: python. Nothing, if it is meant for another tritonserver: `tarn "
        "doctor` checks the one in the spec.\n"
    )


def test_a_code_that_is_ignored_is_neither_said_nor_repaired(tarn):
    """For what a house means on purpose."""
    top = model("ocr", 'name: "text"\n')
    assert tarn("lint", "repo", "--fix", "--ignore", "TARN-2330")[:2] == (0, "")
    assert (top / "config.pbtxt").read_text().startswith('name: "text"')


def test_json_has_every_part_of_a_finding(tarn):
    """For programs; the same exit code."""
    model("ocr", 'name: "text"\n')
    code, out, _ = tarn("lint", "repo", "-o", "json")
    report = json.loads(out)
    assert code == 1
    assert (report["where"], report["models"]) == ("repo", 1)
    (finding,) = report["findings"]
    assert finding.keys() == {
        *("code", "level", "file", "line", "column", "found", "right", "next_step", "fixable")
    }
    assert (finding["file"], finding["line"], finding["column"]) == ("ocr/config.pbtxt", 1, 1)
    assert finding["fixable"] is True


def test_fix_repairs_prints_the_diff_and_has_nothing_to_do_twice(tarn):
    """A renamed configuration is looked at too."""
    top = model("ocr", 'name: "text"\n')
    (top / "config.pbtxt").rename(top / "Config.pbtxt")
    code, out, _ = tarn("lint", "repo", "--fix")
    assert code == 0
    assert out.splitlines()[:2] == ["rename from ocr/Config.pbtxt", "rename to ocr/config.pbtxt"]
    assert '-name: "text"' in out.splitlines()
    assert (top / "config.pbtxt").read_text() == CONFIG + OUTPUT
    assert tarn("lint", "repo", "--fix")[:2] == (0, "")


def test_a_path_without_a_repository_is_wrong_usage(tarn):
    """Exit 2 and the code; no traceback."""
    code, out, err = tarn("lint", "nowhere")
    assert (code, out) == (2, "")
    assert err.startswith("tarn: [TARN-2200] nowhere: ")
    Path("file").write_text("x")
    assert tarn("lint", "file")[0] == 2
    assert tarn("lint")[0] == 2


CACHED = "response_cache { enable: true }\n"


def test_without_a_path_the_repository_of_the_spec_is_looked_at(tarn):
    """Then what the models want is compared with what the spec gives."""
    model("ocr", CACHED)
    Path("tarn.yaml").write_text("models: repo\n")
    code, out, err = tarn("lint")
    assert (code, err) == (0, "1 model: 1 warning\n")
    assert ": warning TARN-2347: response_cache is enabled" in out
    assert "ocr/config.pbtxt:1:1" in out
    Path("tarn.yaml").write_text("{models: repo, triton: {cache: {size: 256MiB}}}\n")
    assert tarn("lint")[1:] == ("", "1 model: nothing to say\n")


def test_a_path_is_compared_with_a_spec_only_where_one_is_named(tarn):
    """The repository need not be that of the tarn.yaml which happens to be here."""
    model("ocr", CACHED)
    Path("tarn.yaml").write_text("models: other\n")
    assert tarn("lint", "repo") == (0, "", "1 model: nothing to say\n")
    assert "TARN-2347" in tarn("lint", "repo", "-f", "tarn.yaml")[1]
    code, _, err = tarn("lint", "repo", "-f", "nowhere.yaml")
    assert code == 2
    assert "nowhere.yaml" in err


def test_a_uri_is_looked_at_in_a_copy_and_never_repaired(tarn):
    """Findings name the URI without its password; --fix is refused."""
    top = model("ocr", 'name: "text"\n')
    uri = f"file://{top.parent.resolve()}"
    code, out, _ = tarn("lint", uri)
    assert code == 1
    assert out.startswith(f"{uri}/ocr/config.pbtxt:1:1: error TARN-2330: ")
    code, _, err = tarn("lint", uri, "--fix")
    assert code == 2
    assert "--fix repairs a directory" in err
    assert (top / "config.pbtxt").read_text().startswith('name: "text"')


def test_rules_are_listed_with_their_plugin(tarn):
    """What is asked, without a repository."""
    code, out, _ = tarn("lint", "--rules")
    assert code == 0
    assert out.splitlines()[0].split() == ["RULE", "FINDS"]
    assert any(line.startswith("lint:ensembles ") for line in out.splitlines())


class House:
    """A stranger's plugin with a rule of its own."""

    @hookimpl
    def tarn_lint_rules(self):
        def check(repository):
            for each in repository.models:
                if not each.name.startswith("acme_"):
                    yield LintFinding("ACME-1", Location(each.name), "has not the house's prefix")

        return [LintRule("prefix", "names begin with acme_", check)]


def test_a_strangers_rule_is_asked_like_the_built_in_ones(fleet: FakeFleet, capsys):
    """Its own code; a warning, for the table does not know it."""
    model("ocr")
    environment = attrs.evolve(fleet.environment, plugins=lambda: load([House()]))
    assert run(["lint", "repo"], environment) == 0
    assert capsys.readouterr().out == "repo/ocr: warning ACME-1: has not the house's prefix.\n"


def test_a_plugin_that_fails_to_offer_rules_is_named() -> None:
    """As with every offering hook."""

    class Bad:
        @hookimpl
        def tarn_lint_rules(self):
            raise RuntimeError("no rules today")

    class Twice:
        @hookimpl
        def tarn_lint_rules(self):
            return [LintRule("a", "", lambda _: ()), LintRule("a", "", lambda _: [])]

    with pytest.raises(PluginError, match="no rules today"):
        load([Bad()]).lint_rules()
    with pytest.raises(PluginError, match="two lint rules named 'a'"):
        load([Twice()]).lint_rules()
