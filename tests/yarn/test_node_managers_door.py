"""The door to real NodeManagers: what is launched is what was said, and it ends when told."""

import secrets
import time
from collections.abc import Iterator

import pytest
from servers.yarn import java
from unmanaged import Application

from tarn.errors import LaunchError, ProviderError, Superseded
from tarn.java import load
from tarn_plugins.cli.sandbox.sandbox import Sandbox
from tarn_plugins.runtime.yarn.hadoop.files import HadoopFiles
from tarn_plugins.runtime.yarn.messages import (
    AllocatedContainer,
    Ask,
    Completed,
    ContainerLaunch,
    Exchange,
    LocalFile,
    Shape,
)

pytestmark = pytest.mark.yarn

SHAPE = Shape(256, 1, tag="tarn-test-node", scope="cluster")
WAITS = ContainerLaunch("exec sleep 600", {})
PROBE_TOKENS = b"""
has() { grep -qa "$1" "$HADOOP_TOKEN_FILE_LOCATION"; }
has TEST_FS_TOKEN || exit 21
has acme.key || exit 22
has tarn.file && exit 23
has "very secret" && exit 24
has YARN_AM_RM && exit 25
exit 45
"""


@pytest.fixture(autouse=True)
def jvm(hadoop: Sandbox) -> None:
    java(hadoop.environ)


@pytest.fixture
def app() -> Iterator[Application]:
    with Application() as made:
        yield made


@pytest.fixture
def root(app: Application) -> Iterator[str]:
    """A directory of our own."""
    files = HadoopFiles(app.conf)
    uri = files.qualified(f"/tmp/tarn-test-{secrets.token_hex(4)}")
    yield uri
    files.remove(uri)


def get(app: Application, *numbers: int) -> tuple[AllocatedContainer, ...]:
    app.say(asks=tuple(Ask(number, SHAPE) for number in numbers))
    app.beat(lambda: set(numbers) <= set(app.held()))
    return tuple(map(app.of, numbers))


def local(files: HadoopFiles, uri: str, name: str, **how: bool) -> LocalFile:
    found = files.entry(uri)
    return LocalFile(name, found.uri, found.bytes, found.modified_ms, **how)


def ended(app: Application, number: int) -> Completed:
    app.exit_code(number)
    container_id = app.of(number).container_id
    return next(each for each in app.completed if each.container_id == container_id)


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_the_exit_code_is_the_processs_own(app: Application, command: str, code: int) -> None:
    """0 to 255; the shell makes 128 + n of a signal."""
    (grant,) = get(app, 1)
    app.nodes.start(grant, ContainerLaunch(command, {}))
    assert app.exit_code(1) == code


def test_a_stop_ends_the_process_and_a_second_one_is_no_error(app: Application) -> None:
    """Both while YARN still knows it, and after the RM was told of its end."""
    (grant,) = get(app, 1)
    app.nodes.start(grant, WAITS)
    app.nodes.stop(grant)
    app.nodes.stop(grant)
    assert app.exit_code(1) == -105
    app.nodes.stop(grant)


def test_a_container_that_was_never_started_can_be_stopped(app: Application) -> None:
    """Its node has never heard of it."""
    (grant,) = get(app, 1)
    app.nodes.stop(grant)


def test_what_was_given_back_cannot_be_started(app: Application) -> None:
    """Another place may do: this is not an error of the launch itself."""
    (grant,) = get(app, 1)
    app.say(releases=(grant.container_id,))
    with pytest.raises(LaunchError, match="this master may not start it") as caught:
        app.nodes.start(grant, WAITS)
    assert caught.value.retry_after_s is not None


def test_starting_twice_is_refused_and_leaves_the_first_alone(app: Application) -> None:
    """No container runs two processes."""
    (grant,) = get(app, 1)
    app.nodes.start(grant, WAITS)
    with pytest.raises(LaunchError):
        app.nodes.start(grant, WAITS)
    app.rest(1)
    assert app.completed == []


def test_environment_and_files_arrive(app: Application, root: str) -> None:
    """A name with directories, a public file, a private one; the command is a constant."""
    files = HadoopFiles(app.conf)
    probe = (
        b'test "$TARN_TEST" = "a b" || exit 11\n'
        b'test "$(cat models/ocr/1/model.py)" = code || exit 12\n'
        b"exit 42\n"
    )
    files.write(f"{root}/probe", probe)
    files.write(f"{root}/public/code", b"code", mode=0o644)
    assert files.entry(f"{root}/public/code").public is False  # the root is private
    launch = ContainerLaunch(
        "sh .tarn/run",
        {"TARN_TEST": "a b"},
        (
            local(files, f"{root}/probe", ".tarn/run"),
            local(files, f"{root}/public/code", "models/ocr/1/model.py"),
        ),
    )
    (grant,) = get(app, 1)
    app.nodes.start(grant, launch)
    assert ended(app, 1).exit_code == 42


def test_a_public_file_is_fetched_for_everybody(app: Application, root: str) -> None:
    """The node takes it as itself; the same file said to be public while it is not fails."""
    files = HadoopFiles(app.conf)
    files.write(f"{root}/open", b"exit 43", mode=0o644)
    files.write(f"{root}/shut", b"exit 44")
    for number, (name, code) in enumerate({"open": 43, "shut": -1000}.items(), start=1):
        (grant,) = get(app, number)
        run = local(files, f"{root}/{name}", "run", public=True)
        app.nodes.start(grant, ContainerLaunch("sh run", {}, (run,)))
        assert ended(app, number).exit_code == code


def test_a_file_that_changed_is_said_by_name(app: Application, root: str) -> None:
    """YARN refuses it before anything starts, with -1000 and its path."""
    files = HadoopFiles(app.conf)
    files.write(f"{root}/run", b"exit 0")
    stale = local(files, f"{root}/run", "run")
    files.write(f"{root}/run", b"exit 1", replace=True)
    (grant,) = get(app, 1)
    app.nodes.start(grant, ContainerLaunch("sh run", {}, (stale,)))
    over = ended(app, 1)
    assert over.exit_code == -1000
    assert f"{root}/run" in over.diagnostics


def test_a_container_gets_no_secret_of_the_master(app: Application, root: str) -> None:
    """Neither the token that speaks for the application nor what was submitted for the master."""
    users = load("org.apache.hadoop.security.UserGroupInformation")
    text, token = load("org.apache.hadoop.io.Text"), load("org.apache.hadoop.security.token.Token")
    mine = users.getCurrentUser()
    kind = load("org.apache.hadoop.yarn.security.AMRMTokenIdentifier").KIND_NAME
    mine.addToken(text("am"), token(b"i", b"p", kind, text("nowhere:1")))
    mine.addToken(text("fs"), token(b"i", b"p", text("TEST_FS_TOKEN"), text("nowhere:2")))
    keys = load("org.apache.hadoop.security.Credentials")()
    keys.addSecretKey(text("tarn.file.api_token"), b"very secret")
    keys.addSecretKey(text("acme.key"), b"for everybody")
    mine.addCredentials(keys)
    files = HadoopFiles(app.conf)
    files.write(f"{root}/probe", PROBE_TOKENS)
    (grant,) = get(app, 1)
    run = local(files, f"{root}/probe", "run")
    app.nodes.start(grant, ContainerLaunch("sh run", {}, (run,)))
    assert app.exit_code(1) == 45


def test_containers_outlive_a_master_and_obey_the_next_one(app: Application) -> None:
    """The next one knows number and node, and can stop them; the old one is superseded."""
    grants = get(app, 1, 2)
    for grant in grants:
        app.nodes.start(grant, WAITS)
    rm, nodes = app.rm, app.nodes
    found = app.attempt().recovered
    nodes.close()
    assert {each.number: each for each in found} == {each.number: each for each in grants}
    with pytest.raises(Superseded):
        rm.exchange(Exchange())
    rm.close()
    app.rest(1)
    assert app.completed == []
    for grant in found:
        app.nodes.stop(grant)
    assert [app.exit_code(number) for number in (1, 2)] == [-105, -105]


def test_a_node_that_does_not_answer_is_an_error_within_its_patience(app: Application) -> None:
    """10 s, not Hadoop's three minutes; the RM can still take the container back."""
    began_s = time.monotonic()
    (grant,) = get(app, 1)
    lost = AllocatedContainer(grant.container_id, 1, grant.node, 1, grant.node_http)
    app.handles.node_tokens.setToken(
        f"{grant.node}:1", app.handles.node_tokens.getToken(f"{grant.node}:{grant.node_port}")
    )
    with pytest.raises(ProviderError, match="could not be stopped") as caught:
        app.nodes.stop(lost)
    assert caught.value.retry_after_s is not None
    assert time.monotonic() - began_s < 30
