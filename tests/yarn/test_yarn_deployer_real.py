"""What a client does to a real YARN and HDFS, and what it leaves there: nothing."""

import json
import re
import shlex
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from house import MODELS
from servers.yarn import Hadoop
from stand_in_deployer import LAUNCH_FILES, STAGED, STAGING, DeployerHomes, small

from tarn.domain.spec import InstanceSpec, MasterSpec, ModelsSpec, PlacementSpec, ResourcesSpec
from tarn.errors import LaunchError, NotFoundError, RefusedError
from tarn.interfaces import ClusterRef, Progress
from tarn.java import load
from tarn_plugins.runtime.yarn import YarnSettings
from tarn_plugins.runtime.yarn.client import deployer as module
from tarn_plugins.runtime.yarn.client.deployer import YarnDeployer
from tarn_plugins.runtime.yarn.hadoop import configuration
from tarn_plugins.runtime.yarn.staging import Layout

pytestmark = pytest.mark.yarn

TOKEN = "Zq7-secret-token-of-this-test"
FILES = {**LAUNCH_FILES, "api_token": TOKEN.encode()}


_NO_SUCH_GPU = InstanceSpec(ResourcesSpec(gpus=1, gpu_resource="no/such"))


@pytest.fixture
def stage(hadoop: Hadoop) -> Iterator[DeployerHomes]:
    """A YARN; its HDFS is in the end as it was before."""
    one = DeployerHomes(hadoop)
    before = one.listing()
    yield one
    assert one.listing() == before


def rest(ref: ClusterRef, path: str) -> bytes:
    assert ref.proxy_url is not None
    base = ref.proxy_url.partition("/proxy/")[0]
    with urllib.request.urlopen(f"{base}/ws/v1/cluster/{path}", timeout=10) as answer:
        return answer.read()


def state(ref: ClusterRef) -> str:
    return str(json.loads(rest(ref, f"apps/{ref.application_id}"))["app"]["state"])


def test_found_used_and_ended_from_another_home(stage: DeployerHomes, tmp_path: Path) -> None:
    """The owner's other machine gets token and spec; the first one then finds nothing."""
    here, there = stage.deployer(tmp_path / "here"), stage.deployer(tmp_path / "there")
    ref = here.submit(small("two-homes"), STAGED, FILES)
    try:
        found = there.find("two-homes")
        assert found == ref
        kept = tmp_path / "there" / "clusters" / "two-homes"
        assert (kept / "api_token").read_bytes() == TOKEN.encode()
        assert (kept / "spec.yaml").read_bytes() == FILES["spec.yaml"]
        assert (kept / "api_token").stat().st_mode & 0o777 == 0o600
    finally:
        there.end(ref)
    assert not kept.exists()
    assert here.find("two-homes") is None
    assert state(ref) == "KILLED"
    ending = here.ended("two-homes")
    assert ending is not None
    assert (ending.state, ending.ref.application_id) == ("stopped", ref.application_id)
    here.end(ref)  # its own files go too
    assert not (tmp_path / "here" / "clusters" / "two-homes").exists()


def test_no_secret_is_where_others_look(stage: DeployerHomes, tmp_path: Path) -> None:
    """Public files, command lines, the RM's REST, and the environment of the master."""
    deployer = stage.deployer(tmp_path / "home")
    ref = deployer.submit(small("secretive"), STAGED, FILES)
    try:
        layout = Layout(f"{STAGING}/secretive")
        public = stage.files().listing(layout.public)
        assert {e.path for e in public} == {"run", "master"}
        assert all(e.public for e in public)
        assert not any(e.public for e in stage.files().listing(layout.private))
        seen = [stage.files().read(e.uri) for e in public]
        shown = rest(ref, f"apps/{ref.application_id}")
        app = json.loads(shown)["app"]
        assert app["applicationType"] == "TARN"
        assert set(app["applicationTags"].split(",")) == {"tarn", f"tarn-{app['user']}-secretive"}
        seen += [
            shown,
            rest(ref, f"apps/{ref.application_id}/appattempts"),
        ]
        for process in Path("/proc").glob("[0-9]*"):
            for name in ("cmdline", "environ"):
                try:
                    seen.append((process / name).read_bytes())
                except OSError:
                    continue
        assert not any(TOKEN.encode() in each for each in seen)
        said = "\n".join(deployer.logs(ref, "", None))
        assert '"aliases": ["tarn.file.api_token"' in said, "the master itself has it"
        assert TOKEN not in said
    finally:
        deployer.end(ref)


def test_a_master_that_fails_is_told_within_five_seconds_of_its_end(
    stage: DeployerHomes, tmp_path: Path
) -> None:
    """With its exit code and its own words; the log stays readable; nothing else is left."""
    deployer = stage.deployer(tmp_path / "home")
    with pytest.raises(LaunchError) as caught:
        deployer.submit(small("doomed-real"), STAGED, FILES)
    raised_at = time.time()
    assert "code 3" in caught.value.found
    assert "error: nothing can come of this" in caught.value.found
    assert deployer.find("doomed-real") is None
    assert not list((tmp_path / "home" / "clusters").iterdir())
    ending = deployer.ended("doomed-real")
    assert ending is not None
    assert (ending.state, ending.reason) == ("failed", caught.value.found)
    assert raised_at - ending.at < 5
    lines = list(deployer.logs(ending.ref, "", None))
    assert "error: nothing can come of this" in lines


def test_what_the_rm_refuses_is_told_in_its_words(stage: DeployerHomes, tmp_path: Path) -> None:
    """And nothing is left of the application."""
    deployer = stage.deployer(tmp_path / "home", queue="no-such-queue")
    with pytest.raises(LaunchError, match="unknown queue: no-such-queue"):
        deployer.submit(small("nowhere"), STAGED, FILES)
    assert deployer.find("nowhere") is None


def test_a_master_without_a_word_is_ended(
    stage: DeployerHomes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait has an end, and said what it waited for."""
    monkeypatch.setattr(module, "WAIT_S", 3.0)
    said: list[Progress] = []
    deployer = stage.deployer(tmp_path / "home", "sleep", said=said)
    with pytest.raises(LaunchError) as caught:
        deployer.submit(small("silent"), STAGED, FILES)
    assert caught.value.code == "TARN-3141"
    assert "has not registered" in caught.value.found
    assert any("has not registered" in p.message for p in said)
    assert deployer.find("silent") is None


def test_a_cluster_that_ended_itself_is_followed_by_the_next(
    stage: DeployerHomes, tmp_path: Path
) -> None:
    """An owner that is over, whose directory stayed, is not in the way."""
    leaving, staying = stage.deployer(tmp_path / "home", "leave"), stage.deployer(tmp_path / "home")
    first = leaving.submit(small("follow"), STAGED, FILES)
    deadline_s = time.monotonic() + 30
    while state(first) != "FINISHED" and time.monotonic() < deadline_s:
        pass
    ending = leaving.ended("follow")
    assert ending is not None
    assert (ending.state, ending.reason) == ("stopped", "ended by tarn down")
    second = staying.submit(small("follow"), STAGED, FILES)
    try:
        leaving.end(first)
        assert staying.find("follow") == second
        assert (
            stage.files().read(Layout(f"{STAGING}/follow").owner).decode() == second.application_id
        )
        with pytest.raises(RefusedError):
            leaving.submit(small("follow"), STAGED, FILES)
    finally:
        staying.end(second)


def test_a_staging_that_others_cannot_pass_is_said(stage: DeployerHomes, tmp_path: Path) -> None:
    """It works nevertheless; what will not, and what to do, is said at once."""
    root = f"{STAGING}-closed"
    stage.files().write(f"{root}/x", b"", mode=0o600)
    said: list[Progress] = []
    deployer = stage.deployer(tmp_path / "home", staging=root, said=said)
    try:
        ref = deployer.submit(small("closed"), STAGED, FILES)
        deployer.end(ref)
        note = next(p.message for p in said if p.note)
        assert "runtime.options.staging" in note
        assert "cannot be started again" in note
        assert stage.listing(root) == ["x"]
    finally:
        stage.files().remove(root)


@pytest.mark.parametrize(
    ("changes", "settings", "code"),
    [
        ({}, {}, None),
        ({}, {"queue": "no-such-queue"}, "TARN-3133"),
        ({"master": MasterSpec(memory_mib=10**6)}, {}, "TARN-3144"),
        ({"placement": PlacementSpec(node_label="no-such-label")}, {}, "TARN-3136"),
        (
            {"instance": InstanceSpec(ResourcesSpec(gpus=1, gpu_resource="no/such"))},
            {},
            "TARN-3135",
        ),
        ({"models": ModelsSpec(f"hdfs://{STAGING}/no-models")}, {}, "TARN-2200"),
        ({}, {"python": "python3"}, "TARN-3139"),
    ],
)
def test_checks_against_the_real_yarn(
    stage: DeployerHomes,
    tmp_path: Path,
    changes: dict[str, Any],
    settings: dict[str, Any],
    code: str | None,
) -> None:
    """Queue, size, label, accelerator, models and interpreter are held against what YARN tells."""
    spec = attrs.evolve(small("checked"), **changes)
    fatal = [f for f in stage.deployer(tmp_path / "home", **settings).check(spec) if f.fatal]
    assert [f.code for f in fatal] == ([] if code is None else [code])


@pytest.mark.parametrize("closed", ["above", "whole"])
def test_what_is_advised_opens_a_repository_on_hdfs(
    stage: DeployerHomes, tmp_path: Path, closed: str
) -> None:
    """Each command that is named is run as its owner, and another user's check is content."""
    root, hadoop = f"{STAGING}-closed", stage.hadoop
    hadoop.hdfs_make(f"{root}/above/models")
    try:
        hadoop.run("hdfs", "dfs", "-put", str(MODELS / "echo"), f"{root}/above/models")
        shut = ["700", f"{root}/above"] if closed == "above" else ["-R", "700", root]
        hadoop.run("hdfs", "dfs", "-chmod", *shut)
        real = stage.context(tmp_path)
        stranger = attrs.evolve(real, environ={**real.environ, "HADOOP_USER_NAME": "bob"})
        spec = attrs.evolve(small("bob"), models=ModelsSpec(f"hdfs://{root}/above/models"))
        deployer = YarnDeployer(YarnSettings(staging=STAGING, docker=None), stranger)

        def denied() -> list[str]:
            return [f.next_step for f in deployer.check(spec) if f.code == "TARN-3171"]

        (step,) = denied()
        for command in re.findall(r"`hdfs dfs (-setfacl [^`]+)`", step):
            hadoop.run("hdfs", "dfs", *shlex.split(command))
        for _ in range(3):  # a directory above another closed one hides it
            for again in denied():
                first = re.findall(r"`hdfs dfs (-setfacl [^`]+)`", again)[0]
                hadoop.run("hdfs", "dfs", *shlex.split(first))
        assert denied() == []
    finally:
        hadoop.hdfs_remove(root)


def test_without_hadoop_a_check_says_what_to_set(stage: DeployerHomes, tmp_path: Path) -> None:
    """One finding, no traceback."""
    bare = attrs.evolve(stage.context(tmp_path), environ={"PATH": "/nowhere"})
    (finding,) = YarnDeployer(YarnSettings(), bare).check(small("bare"))
    assert finding.code == "TARN-3120"
    assert "HADOOP_HOME" in finding.next_step


def test_without_a_resource_manager_a_check_does_not_hang(
    stage: DeployerHomes, tmp_path: Path
) -> None:
    """Hadoop's own patience would be a quarter of an hour."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "yarn-site.xml").write_text(
        "<configuration><property><name>yarn.resourcemanager.address</name>"
        "<value>127.0.0.1:1</value></property></configuration>"
    )
    real = stage.context(tmp_path)
    lost = attrs.evolve(real, environ={**real.environ, "HADOOP_CONF_DIR": str(conf)})
    begun_s = time.monotonic()
    (finding,) = YarnDeployer(YarnSettings(), lost).check(small("lost"))
    assert time.monotonic() - begun_s < 30
    assert finding.code == "TARN-3130"
    assert "127.0.0.1:1" in finding.found


def test_kerberos_without_a_ticket_is_told_before_anything_hangs(
    stage: DeployerHomes, tmp_path: Path
) -> None:
    """Hadoop's own client would retry for minutes."""
    conf = tmp_path / "conf"
    conf.mkdir()
    secure = {
        "hadoop.security.authentication": "kerberos",
        "yarn.resourcemanager.principal": "yarn/_HOST@EXAMPLE.TEST",
    }
    (conf / "core-site.xml").write_text(
        "<configuration>"
        + "".join(
            f"<property><name>{n}</name><value>{v}</value></property>" for n, v in secure.items()
        )
        + "</configuration>"
    )
    real = stage.context(tmp_path)
    krb5 = tmp_path / "krb5.conf"
    krb5.write_text("[libdefaults]\n default_realm = EXAMPLE.TEST\n dns_lookup_kdc = false\n")
    environ = {
        **real.environ,
        "HADOOP_CONF_DIR": str(conf),
        "KRB5_CONFIG": str(krb5),
        "KRB5CCNAME": f"FILE:{tmp_path}/none",
    }
    begun_s = time.monotonic()
    (finding,) = YarnDeployer(YarnSettings(), attrs.evolve(real, environ=environ)).check(
        small("krb")
    )
    assert time.monotonic() - begun_s < 15
    assert finding.code == "TARN-3132"
    assert "kinit" in finding.next_step


def test_collected_logs_of_an_instance_are_found_by_its_id(
    stage: DeployerHomes, tmp_path: Path
) -> None:
    """After the end nobody knows which container it had; Triton's own table of options does."""
    deployer = stage.deployer(tmp_path / "home")
    ref = deployer.submit(small("collected"), STAGED, FILES)
    deployer.end(ref)
    table = "| server_id | {} |\nline of {}\n"
    texts = {n: table.format(f"collected-000{n}", n) for n in (1, 2)}
    with collected(stage, ref, {n: {"triton.stderr": text} for n, text in texts.items()}, tmp_path):
        for number, text in texts.items():
            lines = list(deployer.logs(ref, f"collected-000{number}", None))
            assert lines == text.splitlines()
        with pytest.raises(NotFoundError):
            deployer.logs(ref, "collected-0003", None)


class collected:  # noqa: N801 (reads as a word)
    """Logs as a NodeManager would have collected them, while the block runs."""

    def __init__(
        self,
        stage: DeployerHomes,
        ref: ClusterRef,
        containers: dict[int, dict[str, str]],
        scratch: Path,
    ) -> None:
        self._stage, self._ref = stage, ref
        self._containers, self._scratch = containers, scratch

    def __enter__(self) -> None:
        format_ = "org.apache.hadoop.yarn.logaggregation.AggregatedLogFormat"
        conf = configuration()
        user = load("org.apache.hadoop.security.UserGroupInformation").getCurrentUser()
        application = load("org.apache.hadoop.yarn.api.records.ApplicationId").fromString(
            self._ref.application_id
        )
        controller = load(
            "org.apache.hadoop.yarn.logaggregation.filecontroller.tfile.LogAggregationTFileController"
        )()
        controller.initialize(conf, "TFile")
        node = load("org.apache.hadoop.yarn.api.records.NodeId").newInstance("nm1", 1)
        path = controller.getRemoteNodeLogFileForApp(application, user.getShortUserName(), node)
        self._folder = str(path.getParent())
        self._stage.files().write(f"{self._folder}/x", b"")
        self._stage.files().remove(f"{self._folder}/x")
        writer = load(f"{format_}$LogWriter")()
        writer.initialize(conf, path, user)
        writer.writeApplicationOwner(user.getShortUserName())
        writer.writeApplicationACLs(load("java.util.HashMap")())
        for number, logs in self._containers.items():
            id_ = self._ref.application_id.replace("application", "container")
            container = load("org.apache.hadoop.yarn.api.records.ContainerId").fromString(
                f"{id_}_01_{number + 1:06d}"
            )
            local = self._scratch / "logs" / str(application) / str(container)
            local.mkdir(parents=True)
            for name, text in logs.items():
                (local / name).write_text(text)
            dirs = load("java.util.ArrayList")()
            dirs.add(str(self._scratch / "logs"))
            value = load(f"{format_}$LogValue")(dirs, container, user.getShortUserName())
            writer.append(load(f"{format_}$LogKey")(container), value)
        writer.close()

    def __exit__(self, *_exc: object) -> None:
        self._stage.files().remove(self._folder)
