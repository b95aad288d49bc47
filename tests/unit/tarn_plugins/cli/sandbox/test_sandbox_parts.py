"""Programs, host names, jars, Java and processes of a sandbox; no Hadoop runs."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import attrs
import click
import pytest
from click.testing import CliRunner

from tarn.errors import NotFoundError, ProviderError, RefusedError, UnreachableError
from tarn.interfaces import ClientContext, Progress
from tarn.testing.context import client_context
from tarn.testing.wait import until
from tarn_plugins.cli.sandbox import jars, layout, tarn_cli
from tarn_plugins.cli.sandbox.daemons import DaemonProcess, containers, spawn
from tarn_plugins.cli.sandbox.layout import lay_out, remove, shims, written
from tarn_plugins.cli.sandbox.options import SandboxOptions, addresses
from tarn_plugins.cli.sandbox.rest import ResourceManagers, ask
from tarn_plugins.cli.sandbox.sandbox import Sandbox

MAIN = "hadoop-yarn-server-resourcemanager-3.4.2.jar"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def context(tmp_path: Path) -> ClientContext:
    """A client's context with a Java that says what it was started with."""
    home = tmp_path / "java"
    program(home / "bin" / "java", '#!/bin/sh\nprintf "%s\\n" "$@"\n')
    environ = {"PATH": os.defpath, "JAVA_HOME": str(home)}
    return attrs.evolve(client_context(tmp_path), environ=environ)


# -- bin/hadoop


@pytest.fixture
def odd(tmp_path: Path, context: ClientContext) -> Path:
    """A sandbox whose directory has signs that a shell would take for its own."""
    directory = tmp_path / "it's a $HOME; `x`"
    (directory / "lib").mkdir(parents=True)
    for name in ("b.jar", "a.jar"):
        (directory / "lib" / name).touch()
    java_program = f"{context.environ['JAVA_HOME']}/bin/java"
    for path, text in shims(java_program, str(directory)).items():
        program(directory / path, text)
    return directory


def said(directory: Path, *arguments: str, **environ: str) -> list[str]:
    done = subprocess.run(
        [str(directory / "bin" / arguments[0]), *arguments[1:]],
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": os.defpath, **environ},
    )
    return done.stdout.splitlines()


def test_the_classpath_is_the_configuration_and_every_jar(odd: Path) -> None:
    """With --glob one by one, as a JVM in a process wants it; without, as `java` takes it."""
    conf, lib = f"{odd}/etc/hadoop", f"{odd}/lib"
    assert said(odd, "hadoop", "classpath", "--glob") == [f"{conf}:{lib}/a.jar:{lib}/b.jar"]
    assert said(odd, "yarn", "classpath") == [f"{conf}:{lib}/*"]
    other = said(odd, "hadoop", "classpath", HADOOP_CONF_DIR="/other conf")
    assert other == [f"/other conf:{lib}/*"]


@pytest.mark.parametrize(
    ("typed", "run"),
    [
        (("hadoop", "fs", "-ls", "/a b;$c"), ("org.apache.hadoop.fs.FsShell", "-ls", "/a b;$c")),
        (
            ("hadoop", "credential", "list"),
            ("org.apache.hadoop.security.alias.CredentialShell", "list"),
        ),
        (
            ("yarn", "application", "-list"),
            ("org.apache.hadoop.yarn.client.cli.ApplicationCLI", "application", "-list"),
        ),
        (("yarn", "logs"), ("org.apache.hadoop.yarn.client.cli.LogsCLI",)),
        (("hadoop", "com.example.Main", ""), ("com.example.Main", "")),
    ],
)
def test_a_verb_becomes_its_class_and_arguments_stay_whole(
    odd: Path, typed: tuple[str, ...], run: tuple[str, ...]
) -> None:
    """No sign of an argument means anything to the shell."""
    assert tuple(said(odd, *typed)[-len(run) :]) == run


def test_an_unknown_verb_is_refused_with_the_known_ones(odd: Path) -> None:
    """As usage."""
    done = subprocess.run(
        [str(odd / "bin" / "hadoop"), "balancer"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "no 'balancer'; it has: classpath credential fs" in done.stderr


# -- /etc/hosts


def test_lines_that_lack_are_added_once(tmp_path: Path) -> None:
    """Nothing else in the file is touched."""
    file = tmp_path / "hosts"
    file.write_text("127.0.0.1 localhost\n")

    def found(name: str) -> str | None:
        rows = [line.split() for line in file.read_text().splitlines()]
        return next((row[0] for row in rows if name in row), None)

    wanted = addresses(SandboxOptions())
    for _ in range(2):
        layout.ensure_hosts(wanted, file, found)
    lines = file.read_text().splitlines()
    assert lines[0] == "127.0.0.1 localhost"
    assert len(lines) == 1 + len(wanted)
    assert "127.0.77.11 nm1.tarn.test # tarn sandbox" in lines


@pytest.mark.parametrize("before", ["", "127.0.0.1 localhost\n", "127.0.0.1 localhost"])
def test_no_line_is_glued_to_the_one_before(tmp_path: Path, before: str) -> None:
    """A file whose last line has no newline gets one first."""
    file = tmp_path / "hosts"
    file.write_text(before)
    answers = iter([None, "127.0.77.3"])
    layout.ensure_hosts({"rm.tarn.test": "127.0.77.3"}, file, lambda _name: next(answers))
    lines = before.splitlines()
    assert file.read_text() == "\n".join([*lines, "127.0.77.3 rm.tarn.test # tarn sandbox\n"])


def test_a_file_that_may_not_be_written_is_an_error_with_the_lines(tmp_path: Path) -> None:
    """They can be pasted."""
    with pytest.raises(ProviderError) as caught:
        layout.ensure_hosts({"rm.tarn.test": "127.0.77.3"}, tmp_path, lambda _name: None)
    assert caught.value.code == "TARN-3503"
    assert caught.value.next_step.endswith("\n127.0.77.3 rm.tarn.test")


def test_a_name_that_leads_elsewhere_is_an_error(tmp_path: Path) -> None:
    """An added line does not help where another source of names wins."""
    with pytest.raises(ProviderError, match="an earlier line"):
        layout.ensure_hosts(
            {"a.tarn.test": "127.0.77.3"}, tmp_path / "hosts", lambda _name: "10.0.0.1"
        )


# -- jars


MAVEN = """#!/bin/sh
for one in "$@"; do case $one in -DoutputDirectory=*) out=${{one#*=}};; esac; done
echo run >> {calls}
echo "Downloaded from somewhere: x"; echo "[INFO] Copying y"; {action}
"""


def maven(tmp_path: Path, context: ClientContext, action: str) -> ClientContext:
    bin_ = tmp_path / "maven"
    program(bin_ / "mvn", MAVEN.format(calls=tmp_path / "calls", action=action))
    return attrs.evolve(context, environ={"PATH": f"{bin_}:{os.defpath}"})


def test_jars_are_fetched_once_and_told_of(tmp_path: Path, context: ClientContext) -> None:
    """They arrive whole; nothing else stays in the cache."""
    heard: list[Progress] = []
    one = maven(tmp_path, context, f'mkdir "$out" && touch "$out/{MAIN}"')
    one = attrs.evolve(one, progress=heard.append)
    for _ in range(2):
        assert [jar.name for jar in jars.fetched("3.4.2", one)] == [MAIN]
    assert (tmp_path / "calls").read_text() == "run\n"
    assert [path.name for path in one.paths.cache.iterdir()] == ["hadoop-3.4.2"]
    assert "1 files downloaded, 1 jars" in heard[-1].message


@pytest.mark.parametrize(
    ("action", "match"),
    [
        ("echo '[ERROR] no such version'; exit 1", "(?s)exit code 1.*no such version"),
        ('mkdir "$out"', "did not download a ResourceManager"),
    ],
)
def test_what_maven_could_not_bring_is_said_and_nothing_is_kept(
    tmp_path: Path, context: ClientContext, action: str, match: str
) -> None:
    """The next try begins anew."""
    one = maven(tmp_path, context, action)
    with pytest.raises(ProviderError, match=match) as caught:
        jars.fetched("3.4.2", one)
    assert caught.value.code == "TARN-3502"
    assert list(one.paths.cache.iterdir()) == []


def test_without_maven_the_error_says_what_to_install(context: ClientContext) -> None:
    """Or to name an installation."""
    one = attrs.evolve(context, environ={"PATH": "/nowhere"})
    with pytest.raises(
        ProviderError, match=r"(?s)mvn is not on PATH.*apt install maven.*--hadoop-home"
    ):
        jars.fetched("3.4.2", one)


def test_an_installation_s_jars_are_used_as_they_are(tmp_path: Path) -> None:
    """In Hadoop's own layout; a folder without them is refused."""
    yarn = tmp_path / "share" / "hadoop" / "yarn"
    (yarn / "lib").mkdir(parents=True)
    for name in (MAIN, "lib/guice.jar"):
        (yarn / name).touch()
    assert [jar.name for jar in jars.installed(tmp_path)] == ["guice.jar", MAIN]
    with pytest.raises(ProviderError, match="does not hold a Hadoop"):
        jars.installed(yarn / "lib")


# -- java


def test_java_is_found_by_its_variable_or_on_path(context: ClientContext) -> None:
    """The same one."""
    home = Path(context.environ["JAVA_HOME"])
    assert jars.find_java(context.environ) == home
    assert jars.find_java({"PATH": str(home / "bin")}) == home


def test_a_missing_or_old_java_is_an_error_that_says_what_to_install(
    context: ClientContext,
) -> None:
    """1.8 is Java 8."""
    with pytest.raises(ProviderError, match=r"no java on PATH.*apt install"):
        jars.find_java({"PATH": "/nowhere"})
    with pytest.raises(ProviderError, match="holds no bin/java"):
        jars.find_java({"JAVA_HOME": "/nowhere"})
    home = Path(context.environ["JAVA_HOME"])
    (home / "release").write_text('JAVA_VERSION="1.8.0_402"\n')
    with pytest.raises(ProviderError, match="is Java 8"):
        jars.find_java(context.environ)
    (home / "release").write_text('JAVA_VERSION="17.0.15"\n')
    assert jars.find_java(context.environ) == home


# -- processes


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[DaemonProcess]:
    environ = {"LOCAL_DIRS": f"{tmp_path}/data/nm1/local/usercache/x"}
    one = spawn(
        [sys.executable, "-c", "import signal; signal.pause()"],
        environ,
        tmp_path,
        tmp_path / "log",
    )
    yield one
    one.send(signal.SIGKILL)
    one.wait(5)


def test_a_process_is_known_again_and_its_end_noticed(
    tmp_path: Path, sleeper: DaemonProcess
) -> None:
    """By pid and start; another with the pid is not it, and gets no signal."""
    sleeper.write(tmp_path / "x.pid")
    again = DaemonProcess.read(tmp_path / "x.pid")
    assert again == sleeper
    assert sleeper.alive
    stranger = DaemonProcess(sleeper.pid, sleeper.start + 1)
    assert not stranger.alive
    stranger.send(signal.SIGKILL)
    assert not sleeper.wait(0.05)
    sleeper.send(signal.SIGTERM)
    assert sleeper.wait(5)
    assert not sleeper.alive
    assert sleeper.wait(0)
    assert DaemonProcess.read(tmp_path / "absent.pid") is None


def test_containers_are_known_by_their_node_s_directories(
    tmp_path: Path, sleeper: DaemonProcess
) -> None:
    """Those of another sandbox are not ours."""
    # between fork and exec it shows its parent's environment
    until(lambda: containers(tmp_path / "data") == (sleeper,), 10)
    assert containers(tmp_path / "dat") == ()


# -- the sandbox


def test_what_is_written_is_read_and_removed_and_strangers_stay(tmp_path: Path) -> None:
    """A file that somebody put there survives `down`."""
    directory, options = tmp_path / "s", SandboxOptions(nodes=2, ha=True)
    lay_out(directory, options, {"etc/a": "1"}, {"bin/b": "2"}, [tmp_path / "c.jar"])
    assert written(directory) == options
    assert os.access(directory / "bin" / "b", os.X_OK)
    (directory / "mine").touch()
    remove(directory)
    assert [path.name for path in directory.iterdir()] == ["mine"]
    assert written(directory) is None


def test_a_directory_with_something_else_in_it_is_refused(
    tmp_path: Path, context: ClientContext
) -> None:
    """Before anything is written."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    with pytest.raises(RefusedError, match="not a sandbox"):
        Sandbox(tmp_path / "full", context, SandboxOptions()).up()


def test_where_there_is_none_every_verb_says_so(tmp_path: Path, context: ClientContext) -> None:
    """With how to make one."""
    with pytest.raises(NotFoundError, match="tarn sandbox up"):
        Sandbox(tmp_path, context)


def test_a_daemon_that_does_not_run_cannot_be_killed(
    tmp_path: Path, context: ClientContext
) -> None:
    """An unknown one is refused with the known names; `down` is idempotent."""
    one = Sandbox(tmp_path / "s", context, SandboxOptions(nodes=1))
    with pytest.raises(NotFoundError, match="does not run"):
        one.kill("nm1")
    with pytest.raises(NotFoundError, match="There are: rm, nn, dn, nm1"):
        one.kill("nm2")
    assert {daemon.pid for daemon in one.daemons()} == {None}
    one.down()


# -- asking


@pytest.fixture
def server() -> Iterator[tuple[int, dict[str, bytes]]]:
    """A server that answers each first line of a request with what stands in the table."""
    answers: dict[str, bytes] = {}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening, answers), daemon=True)
        thread.start()
        yield listening.getsockname()[1], answers
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def serve(listening: socket.socket, answers: dict[str, bytes]) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection, connection.makefile("rb") as asked:
            line = asked.readline().decode().partition("?")[0].partition(" HTTP")[0]
            headers = http.client.parse_headers(asked)
            asked.read(int(headers["Content-Length"] or 0))  # what is left unread resets the answer
            status, _, body = answers.get(line, b"404 Not Found|").partition(b"|")
            connection.sendall(b"HTTP/1.0 " + status + b"\r\n\r\n" + body)


def test_answers_are_json_and_everything_else_is_unreachable(
    server: tuple[int, dict[str, bytes]],
) -> None:
    """With the address."""
    port, answers = server
    answers |= {"GET /a": b'200 OK|{"b": 1}', "PUT /c": b"202 Accepted|", "GET /d": b"200 OK|<p>"}
    assert ask("127.0.0.1", port, "/a") == {"b": 1}
    assert ask("127.0.0.1", port, "/c", method="PUT", body={}) is None
    for path in ("/d", "/e"):
        with pytest.raises(UnreachableError, match=f"http://127.0.0.1:{port}{path}"):
            ask("127.0.0.1", port, path)
    with pytest.raises(UnreachableError, match="GET failed"):
        ask("127.0.0.1", 1, "/")


def test_of_two_resource_managers_the_active_one_is_asked(
    server: tuple[int, dict[str, bytes]],
) -> None:
    """A standby is none, and neither is one that does not answer."""
    port, answers = server
    info = "GET /ws/v1/cluster/info"
    answers[info] = b'200 OK|{"clusterInfo": {"haState": "STANDBY"}}'
    one = ResourceManagers(["127.0.0.3", "127.0.0.1"], port, "anna")
    with pytest.raises(UnreachableError):
        one.active()
    answers[info] = b'200 OK|{"clusterInfo": {"haState": "ACTIVE"}}'
    answers["GET /ws/v1/cluster/apps"] = b'200 OK|{"apps": null}'
    assert one.active() == "127.0.0.1"
    assert one.get("apps", states="RUNNING") == {"apps": None}


# -- the command line


def test_the_hook_adds_one_verb_with_three_below() -> None:
    """`tarn sandbox --help` starts nothing."""
    group = click.Group()
    tarn_cli(group)
    found = group.commands["sandbox"]
    assert isinstance(found, click.Group)
    assert set(found.commands) == {"up", "down", "status"}
    assert CliRunner().invoke(group, ["sandbox", "up", "--help"]).exit_code == 0
    wrong = CliRunner().invoke(group, ["sandbox", "up", "--hadoop", "../3"])
    assert wrong.exit_code == 2
    assert "is not a version of Hadoop" in wrong.output
