"""What runs in a real container is what was said, to the byte; Triton finds its models there."""

import json
import secrets
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.yarn import Hadoop, java
from unmanaged import Application

from tarn.domain import Endpoint, Launch
from tarn.domain.spec import InstanceSpec, ModelsSpec, TritonSpec
from tarn_plugins.runtime.yarn.hadoop.files import HadoopFiles
from tarn_plugins.runtime.yarn.launch.launch_file import COMMAND, LAUNCH, RUN, SCRIPT, encode
from tarn_plugins.runtime.yarn.launch.launcher import StagedLauncher
from tarn_plugins.runtime.yarn.master.recovery import file_name
from tarn_plugins.runtime.yarn.messages import (
    AllocatedContainer,
    Ask,
    ContainerLaunch,
    ContainerRecord,
    LocalFile,
    Shape,
)
from tarn_plugins.runtime.yarn.staging import Layout

pytestmark = pytest.mark.yarn

ECHO = Path(__file__).parents[1] / "models"
SHAPE = Shape(768, 1, tag="tarn-test-launch")
SECRET = "hunter2-$(touch pwned)-{{PWD}}"
SAY = (
    "import sys\n"
    "said = [open('/proc/self/' + name, 'rb').read() for name in ('cmdline', 'environ')]\n"
    "open(sys.argv[1], 'wb').write(b'\\0'.join(said))"
)
NASTY = (
    b"", b" ", b"\n", b"a\n\n", b"\\", b"\\0101", b"%s%b%%", b"{{PWD}}", b"<LOG_DIR>", b"$HOME",
    b"${HOME}", b"$(touch pwned)", b"`touch pwned`", b'"', b"'", b"-n", b"--", b"\xff\xfe\x81",
    bytes(range(1, 256)), "é模型".encode(),
)  # fmt: skip


@pytest.fixture(autouse=True)
def jvm(hadoop: Hadoop) -> None:
    java(hadoop.environ)


@pytest.fixture
def app() -> Iterator[Application]:
    with Application() as made:
        yield made


@pytest.fixture
def layout(app: Application) -> Iterator[Layout]:
    """A cluster's directory, with the script in it."""
    files = HadoopFiles(app.conf)
    top = files.qualified(f"/tmp/tarn-test-{secrets.token_hex(4)}")
    made = Layout(f"{top}/demo")
    files.write(f"{made.public}/run", RUN, mode=0o644)
    yield made
    files.remove(top)


@pytest.fixture
def files(app: Application, layout: Layout) -> HadoopFiles:
    """The file system, with a repository next to the cluster: a model, an ensemble, leftovers."""
    made, models = HadoopFiles(app.conf), f"{layout.root}/models"
    for path in ("echo/config.pbtxt", "echo/1/model.py"):
        made.upload(ECHO / path, f"{models}/{path}", mode=0o644)
    made.write(f"{models}/pipe/config.pbtxt", PIPE, mode=0o644)
    made.write(f"{models}/_SUCCESS", b"")
    made.write(f"{models}/echo/.config.pbtxt.crc", b"x")
    return made


PIPE = b"""platform: "ensemble"
input [{name: "IN" data_type: TYPE_FP32 dims: [-1]}]
output [{name: "OUT" data_type: TYPE_FP32 dims: [-1]}]
ensemble_scheduling {step [{model_name: "echo" model_version: -1
  input_map {key: "IN" value: "IN"} output_map {key: "OUT" value: "OUT"}}]}
"""


def get(app: Application, number: int) -> AllocatedContainer:
    app.say(asks=(Ask(number, SHAPE),))
    app.beat(lambda: number in app.held())
    return app.of(number)


def launcher(files: HadoopFiles, layout: Layout) -> StagedLauncher:
    return StagedLauncher(
        files=files, layout=layout, python=sys.executable, docker=None, name_of=file_name
    )


def ask(url: str, body: object = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=5) as answer:
        return bytes(answer.read())


def serves(app: Application, url: str) -> None:
    """Wait until a model is ready; the master keeps on talking meanwhile."""
    deadline = time.monotonic() + 60
    while True:
        app.say()
        try:
            ask(url)
        except OSError:
            assert time.monotonic() < deadline, app.completed
            threading.Event().wait(0.2)
        else:
            return


def start(
    app: Application, one: StagedLauncher, number: int, models: str
) -> tuple[AllocatedContainer, str]:
    """Start an instance in a container of its own; return its place and its URL."""
    grant = get(app, number)
    first = 21000 + 10 * number
    endpoint = Endpoint(grant.node, first, first + 1, first + 2)
    record = ContainerRecord(
        f"demo-{number:04}", number, grant.container_id, "abc", grant.node, endpoint, 1.8e9
    )
    wanted = Launch(
        ModelsSpec(models), TritonSpec(env={"SECRET": SECRET}), InstanceSpec(), models, "abc"
    )
    app.nodes.start(grant, one.prepare(record, wanted))
    return grant, f"http://{endpoint.http}"


def test_every_byte_arrives_in_a_container(
    app: Application, layout: Layout, tmp_path: Path
) -> None:
    """Through HDFS, the NodeManager's cache, YARN's launch script and the node's own shell."""
    files, said = HadoopFiles(app.conf), tmp_path / "said"
    argv = [sys.executable, "-I", "-S", "-c", SAY, str(said), *NASTY]
    environ = {f"V{at}": value for at, value in enumerate(NASTY)}
    tokens = {"HADOOP_TOKEN_FILE_LOCATION": None}
    files.write(f"{layout.launches}/probe", encode(argv, {**environ, **tokens}))
    brought = [
        LocalFile(name, entry.uri, entry.bytes, entry.modified_ms, application=name == LAUNCH)
        for name, entry in (
            (SCRIPT, files.entry(f"{layout.public}/run")),
            (LAUNCH, files.entry(f"{layout.launches}/probe")),
        )
    ]
    app.nodes.start(get(app, 1), ContainerLaunch(COMMAND, {}, tuple(brought)))
    assert app.exit_code(1) == 0, app.completed
    parts = said.read_bytes().split(b"\0")
    assert tuple(parts[6 : len(argv)]) == NASTY
    variables = dict(part.split(b"=", 1) for part in parts[len(argv) + 1 :] if part)
    assert all(variables[name.encode()] == value for name, value in environ.items())
    assert b"HADOOP_TOKEN_FILE_LOCATION" not in variables
    assert variables[b"HOME"].endswith(app.of(1).container_id.encode())


def test_triton_serves_a_repository_that_yarn_brought(
    app: Application, layout: Layout, files: HadoopFiles
) -> None:
    """A nested one, with an ensemble whose version is empty; at its own node's address."""
    _, url = start(app, launcher(files, layout), 1, f"{layout.root}/models")
    serves(app, f"{url}/v2/models/pipe/ready")
    assert json.loads(ask(f"{url}/v2"))["name"] == "demo-0001"
    tensor = {"name": "IN", "datatype": "FP32", "shape": [2], "data": [1.5, 2.0]}
    answer = json.loads(ask(f"{url}/v2/models/pipe/infer", {"inputs": [tensor]}))
    assert answer["outputs"][0]["data"] == [1.5, 2.0]
    other = "http://127.0.0.1:" + url.rpartition(":")[2]
    with pytest.raises(OSError, match="refused"):
        ask(f"{other}/v2")


def test_a_file_that_changed_after_it_was_listed_is_listed_anew(
    app: Application, layout: Layout, files: HadoopFiles
) -> None:
    """YARN says so when the container ends; the next one is brought the new file."""
    one, models = launcher(files, layout), f"{layout.root}/models"
    record = ContainerRecord("x", 9, "c", "abc", "localhost", Endpoint("x", 1, 2, 3), 1.0)
    one.prepare(record, Launch(ModelsSpec(models), TritonSpec(), InstanceSpec(), models, "abc"))
    text = (ECHO / "echo/1/model.py").read_bytes()
    files.write(f"{models}/echo/1/model.py", text + b"\n# new\n", mode=0o644, replace=True)
    start(app, one, 1, models)
    assert app.exit_code(1) == -1000
    one.note_diagnostics(app.completed[-1].diagnostics)
    _, url = start(app, one, 2, models)
    serves(app, f"{url}/v2/models/echo/ready")
