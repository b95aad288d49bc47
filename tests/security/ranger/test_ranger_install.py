"""`tarn ranger install` and `check`, against a recorded Ranger Admin."""

import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import click
import pytest
from click.testing import CliRunner, Result
from servers.ranger import PASSWORD, RecordedAdmin

from tarn.errors import ConfigError, ConfigErrors, ProviderError, TarnError
from tarn.interfaces import Progress
from tarn.testing.context import client_context
from tarn_plugins.authorizer.ranger.commands import ranger
from tarn_plugins.authorizer.ranger.setup_file import (
    ACCESSES,
    AdminState,
    differences,
    parse,
    service_definition,
    steps,
)

POLICIES = """\
service: triton_prod
download_users: [tarn]
policies:
  - name: ocr for data science
    models: ["ocr*"]
    allow: [{groups: [ds], may: [list, infer]}]
    deny: [{users: [alice], may: [infer]}]
  - name: operators
    clusters: ["*"]
    allow: [{users: [admin], may: [admin]}]
"""


class CommandLine:
    """A user at the command line."""

    def __init__(self, folder: Path, admin: RecordedAdmin) -> None:
        self.file = folder / "policies.yaml"
        self.file.write_text(POLICIES)
        self.secret = folder / "password"
        self.secret.write_text(f"{PASSWORD}\n")
        self.admin = admin
        self.heard: list[str] = []
        self._context = attrs.evolve(client_context(folder), progress=self._hear)

    def _hear(self, progress: Progress) -> None:
        self.heard.append(progress.message)

    def run(self, verb: str, *more: str, url: str = "") -> Result:
        @click.group()
        @click.pass_context
        def tarn(ctx: click.Context) -> None:
            ctx.meta["tarn.context"] = self._context

        tarn.add_command(ranger)
        given = ["ranger", verb, str(self.file), "--url", url or self.admin.url]
        if "--password-file" not in more:
            given += ["--password-file", str(self.secret)]
        return CliRunner().invoke(tarn, [*given, *more], catch_exceptions=True)

    def fails(self, verb: str, *more: str, url: str = "") -> TarnError:
        error = self.run(verb, *more, url=url).exception
        assert isinstance(error, TarnError), error
        assert PASSWORD not in f"{error}{error!r}{self.heard}"
        return error


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[CommandLine]:
    with RecordedAdmin() as admin:
        yield CommandLine(tmp_path, admin)


def lines(done: Result) -> list[list[str]]:
    assert done.exit_code == 0, (done.output, done.exception)
    return [re.split(r"\s{2,}", line) for line in done.output.splitlines()]


def test_everything_is_made_once_and_then_left_alone(desk: CommandLine) -> None:
    """The second run writes nothing; `check` says so."""
    assert lines(desk.run("install")) == [
        ["created", "definition", "triton"],
        ["created", "service", "triton_prod"],
        ["created", "policy", "ocr for data science"],
        ["created", "policy", "operators"],
    ]
    assert desk.admin.definitions["triton"]["resources"][0]["lookupSupported"] is False
    service = desk.admin.services["triton_prod"]
    assert service["configs"] == {"policy.download.auth.users": "tarn"}
    written = list(desk.admin.writes)
    assert {line[0] for line in lines(desk.run("install"))} == {"unchanged"}
    assert {line[0] for line in lines(desk.run("check"))} == {"there"}
    assert desk.admin.writes == written


def test_a_dry_run_writes_nothing(desk: CommandLine) -> None:
    """It says what would be done; `check` fails with status 1."""
    assert {line[0] for line in lines(desk.run("install", "--dry-run"))} == {"would create"}
    assert not desk.admin.writes
    done = desk.run("check")
    assert done.exit_code == 1
    assert done.output.count("missing") == 4


def test_a_policy_that_differs_is_updated_and_others_stay(desk: CommandLine) -> None:
    """What the file does not name is none of its business."""
    desk.run("install")
    desk.admin.policies[0]["policyItems"][0]["groups"] = ["public"]
    desk.admin.policies[0]["policyLabels"] = ["kept"]
    desk.admin.policies.append({**desk.admin.policies[1], "id": 7, "name": "by hand"})
    assert [line[0] for line in lines(desk.run("install"))] == [
        "unchanged", "unchanged", "updated", "unchanged",
    ]  # fmt: skip
    assert desk.admin.policies[0]["policyItems"][0]["groups"] == ["ds"]
    assert desk.admin.policies[0]["policyLabels"] == ["kept"]
    assert [one["name"] for one in desk.admin.policies][2] == "by hand"


def test_another_definition_is_left_alone_unless_asked(desk: CommandLine) -> None:
    """That of the Java TARN claims a look-up, and knows no clusters."""
    desk.run("install")
    there = desk.admin.definitions["triton"]
    there["resources"] = [{**there["resources"][0], "lookupSupported": True}]
    assert lines(desk.run("install"))[0] == ["left alone", "definition", "triton"]
    said = " ".join(desk.heard)
    assert "lookupSupported is true, not false" in said
    assert "has no 'cluster' among its resources" in said
    assert "TARN-3413" in said
    assert desk.run("check").exit_code == 1
    assert lines(desk.run("install", "--update-definition"))[0][0] == "updated"
    assert desk.run("check").exit_code == 0


def test_who_may_download_is_added_to_who_does(desk: CommandLine) -> None:
    """Nobody loses that right."""
    desk.run("install")
    desk.admin.services["triton_prod"]["configs"] = {"policy.download.auth.users": "knox", "x": "y"}
    assert lines(desk.run("install"))[1][0] == "updated"
    assert desk.admin.services["triton_prod"]["configs"] == {
        "policy.download.auth.users": "knox,tarn",
        "x": "y",
    }


def test_a_service_of_another_type_is_refused(desk: CommandLine) -> None:
    """Its policies would be about something else."""
    desk.run("install")
    desk.admin.services["triton_prod"]["type"] = "hdfs"
    error = desk.fails("install")
    assert "of the type 'hdfs'" in str(error)


def test_users_that_ranger_admin_does_not_know_are_told(desk: CommandLine) -> None:
    """In its words, with what to do."""
    desk.file.write_text(POLICIES.replace("alice", "nobody-knows"))
    error = desk.fails("install")
    assert error.code == "TARN-3412"
    assert "nobody-knows: user does not exist" in str(error)


def test_a_wrong_password_is_told(desk: CommandLine) -> None:
    """Who was not let in, and never with what."""
    desk.secret.write_text("canary-wrong")
    error = desk.fails("install")
    assert error.code == "TARN-3411"
    assert "canary-wrong" not in str(error)
    assert "'admin'" in str(error)


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_in_trouble_is_not_taken_for_an_empty_one(desk: CommandLine, status: int) -> None:
    """503 would else mean: make everything again."""
    desk.admin.status = status
    error = desk.fails("install")
    assert error.code == "TARN-3410"
    assert str(status) in str(error)
    assert not desk.admin.writes


def test_nobody_at_the_url_is_told(desk: CommandLine) -> None:
    """With the address, and without a traceback of three libraries."""
    error = desk.fails("install", url="http://127.0.0.1:9")
    assert isinstance(error, ProviderError)
    assert error.code == "TARN-3410"
    assert "127.0.0.1:9" in str(error)


def test_the_password_has_no_option(desk: CommandLine) -> None:
    """Arguments can be read by every user of the machine; a URL with one is refused."""
    assert "--password " not in desk.run("install", "--help").output
    assert desk.run("install", "--password", "x").exit_code == 2
    assert desk.run("install", url="http://admin:x@127.0.0.1:1").exit_code == 2


@pytest.mark.parametrize("content", ["", "\n"])
def test_no_password_is_told(desk: CommandLine, content: str) -> None:
    """An empty file is none."""
    desk.secret.write_text(content)
    assert desk.fails("install").code == "TARN-3415"


def test_a_file_that_is_not_there_is_told(desk: CommandLine, tmp_path: Path) -> None:
    """Each by its own code."""
    missing = str(tmp_path / "missing")
    assert desk.fails("install", "--password-file", missing).code == "TARN-3415"
    desk.file.unlink()
    error = desk.fails("install")
    assert isinstance(error, ConfigError)
    assert error.code == "TARN-3414"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("service: a\npolicies: [{name: x}]", "must name either models or clusters"),
        ("service: a\npolicies: [{name: x, models: [a], clusters: [b]}]", "either models or"),
        ("service: a\npolicies: [{name: x, models: [a], allow: [{may: [infer]}]}]", "nobody is"),
        ("service: a\npolicies: [{name: x, models: [a], allow: [{users: [u], may: []}]}]",
         "may is empty"),
        ("service: a\npolicies: [{name: x, models: [a], allow: [{users: [u], may: [admin]}]}]",
         "'admin' is not an action on a model"),
        ("service: a\npolicies: [{name: x, models: [a]}, {name: x, models: [b]}]", "several"),
        ("service: a\nrules: []", "rules"),
        ("service: a/b", "not the name of a Ranger service"),
        ("service: [", "no YAML (line 1)"),
        ("", "a mapping"),
    ],
)  # fmt: skip
def test_what_a_file_cannot_mean_is_told(text: str, said: str) -> None:
    """Before anybody is asked."""
    with pytest.raises(ConfigErrors, match=re.escape(said)):
        parse(text, "policies.yaml")


def test_the_definition_names_every_action_and_no_look_up() -> None:
    """What TARN asks about is what a policy can name; nothing is offered that nobody answers."""
    made = service_definition()
    names = {one["name"] for one in made["accessTypes"]}
    assert names == {access for each in ACCESSES.values() for access in each}
    for resource in made["resources"]:
        assert resource["lookupSupported"] is False
        assert tuple(resource["accessTypeRestrictions"]) == ACCESSES[resource["name"]]
    for one in made["accessTypes"]:
        kind = next(kind for kind, each in ACCESSES.items() if one["name"] in each)
        assert set(one["impliedGrants"]) <= set(ACCESSES[kind])
    assert tuple(differences(made)) == ()


def test_steps_come_in_the_order_in_which_they_can_be_done() -> None:
    """A service needs its definition, a policy its service."""
    wanted = parse(POLICIES, "policies.yaml")
    found = [step.what for step in steps(wanted, AdminState(None, None))]
    assert found == ["definition", "service", "policy", "policy"]
