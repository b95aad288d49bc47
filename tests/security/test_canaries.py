"""Each secret is a canary; after a whole life of a cluster it stands nowhere but where it must."""

import base64
import secrets
import ssl
import struct
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import yaml
from canaries import Canaries, canary, processes_watched
from certificates import Authority
from house import MODELS, House, clear, ids, kill, until
from servers.ranger import PASSWORD, RecordedAdmin
from servers.triton import needed

from tarn.domain import Secret
from tarn.http.admission import ACTIONS
from tarn.plain.master_files import MASTER_FILES
from tarn.triton import regions
from tarn.triton.restricted import key

pytestmark = [*needed, pytest.mark.timeout(400)]

NAME = "quiet"
FIRST, SECOND = f"{NAME}-0001", f"{NAME}-0002"
IN_TRITON = ("hf", "jceks", "variable")
"""What a model may read: in the environment of Triton, and of the stubs of its Python models."""
OF_TRITON = ("user key", "triton key 1", "triton key 2")
"""What Triton itself must know: in its arguments, for it takes them in no other way."""


@attrs.frozen
class Run:
    """One cluster with every kind of secret, and what was seen of them."""

    house: House
    canaries: Canaries
    secret: dict[str, str] = attrs.field(repr=False)

    def tarn(self, *arguments: str, code: int | None = 0) -> str:
        """Run a verb; all that it prints is looked through."""
        done = self.house.tarn(*arguments, timeout_s=150)
        self.canaries.look(f"tarn {' '.join(arguments[:2])}", done.stdout + done.stderr)
        assert code is None or done.returncode == code, (arguments, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def files(self, *names: str) -> None:
        """Look through every file but the user's own; only those that are named may hold one."""
        every = tuple(self.canaries.forms)
        self.canaries.files(self.house.root, dict.fromkeys(names, every), besides="given")


def keytab(*principals: str, secret: bytes) -> bytes:
    """Return a keytab with one AES-256 key for all of *principals*."""
    entries = b""
    for principal in principals:
        name, _, realm = principal.partition("@")
        parts = [realm, *name.split("/")]
        texts = b"".join(struct.pack(">H", len(p)) + p.encode() for p in parts)
        body = struct.pack(">H", len(parts) - 1) + texts + struct.pack(">IIB", 1, 0, 1)
        body += struct.pack(">HH", 18, len(secret)) + secret
        entries += struct.pack(">i", len(body)) + body
    return b"\x05\x02" + entries


def prepared(one: House, canaries: Canaries) -> dict[str, str]:
    """Make every secret, each in a file of its own that nobody else can read."""
    given = one.root / "given"
    given.mkdir(mode=0o700)
    texts = {name: canaries.new(name.replace(" ", "")) for name in ("api", "proxy", "variable")}
    texts |= {name: canary(name.replace(" ", "")) for name in ("hf", "user key", "jceks", "store")}
    for name, text in texts.items():
        canaries.add(name, text)
        (given / name.replace(" ", "_")).write_text(text)
    of_keytab = secrets.token_bytes(32)
    canaries.add("keytab", of_keytab)
    (given / "http.keytab").write_bytes(keytab("HTTP/localhost@TARN.TEST", secret=of_keytab))
    issued = Authority(given).issue("master")
    canaries.add("tls key", issued.private.private_numbers().private_value.to_bytes(32, "big"))
    canaries.add("tls pem", issued.key.read_text().splitlines()[1])
    for path in given.iterdir():
        path.chmod(0o600)
    directory = one.directory(NAME)
    directory.mkdir(parents=True, mode=0o700)
    of_triton = canary("triton")
    canaries.add("triton secret", of_triton)
    (directory / "triton.secret").write_text(of_triton)
    (directory / "triton.secret").chmod(0o600)
    for number, instance_id in enumerate((FIRST, SECOND), 1):
        canaries.add(f"triton key {number}", key(Secret(of_triton), instance_id))
    return texts


def written(one: House, secret: dict[str, str], **more: object) -> str:
    """Write the ``tarn.yaml`` with them."""
    given = one.root / "given"
    store = {"path": str(given / "store.jceks"), "password": f"file:{given / 'store'}"}
    proxy = {"name": "lb1", "address": "127.0.0.1", "authenticated_by": "token"}
    plain = {
        "name": NAME,
        "models": {"repository": str(MODELS), "serve": ["echo"]},
        "replicas": {"min": 1, "max": 2, "initial": 1},
        "drain": {"timeout": "20s", "quiesce": "500ms"},
        "triton": {
            "env": {"HF_TOKEN": secret["hf"], "MODEL_PASSWORD": secret["variable"]},
            "args": {"http-restricted-api": f"statistics:mine={secret['user key']}"},
        },
        "secrets": [{"use": "jceks", "options": store}],
        "api": {
            "token": f"file:{given / 'api'}",
            "spnego": {"keytab": str(given / "http.keytab")},
            "tls": {
                "cert": str(given / "master.crt"),
                "key": str(given / "master.key"),
                "ca": str(given / "authority.pem"),
            },
            "trusted_proxies": [{**proxy, "token": f"file:{given / 'proxy'}"}],
        },
        **more,
    }
    path = given / "tarn.yaml"
    path.write_text(yaml.safe_dump(plain))
    path.chmod(0o600)
    return str(path)


def of_processes(words: list[bytes]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what may stand in a process's arguments, and in its environment."""
    # Triton's own process, before it becomes Triton: it closes shared memory first.
    closing = words[3:4] == [regions.__file__.encode()]
    program = words[4 if closing else 0].rpartition(b"/")[2]
    if program == b"tritonserver":
        return OF_TRITON, IN_TRITON
    # Triton starts the stub of a Python model through a shell.
    stub = any(b"triton_python_backend_stub" in word for word in words)
    return ((), IN_TRITON) if stub else ((), ())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The whole life of a cluster."""
    one = House(tmp_path_factory.mktemp("canaries"))
    (one.root / "tmp").mkdir()
    one.environ["TMPDIR"] = str(one.root / "tmp")
    canaries = Canaries()
    secret = prepared(one, canaries)
    live = Run(one, canaries, secret)
    try:
        with processes_watched(canaries, of_processes):
            _life(live)
        live.files("service.xml")
        yield live
    finally:
        clear(one)


def _life(run: Run) -> None:
    spec = written(run.house, run.secret)
    given = run.house.root / "given"
    run.tarn("secrets", "put", "tarn.env.weights", "-f", spec, "--from", str(given / "jceks"))
    run.tarn("secrets", "list", "-f", spec)
    run.tarn("up", "-f", spec, "--dry-run")
    run.tarn("up", "-f", spec)
    until(lambda: FIRST in ids(run.house.status(NAME)), 60, "an instance is ready")
    _misused(run, spec)
    _asked(run)
    _looked_at(run, spec)
    _doors(run)
    _taken_over(run)
    run.tarn("scale", "-c", NAME, "2")
    until(lambda: len(ids(run.house.status(NAME))) == 2, 60, "a second one")
    run.tarn("logs", "-c", NAME, SECOND)
    _bundled(run)
    run.files("service.xml", *MASTER_FILES)
    run.tarn("down", "-c", NAME)


def _bundled(run: Run) -> None:
    """What is packed is not seen from outside."""
    path = run.house.root / "bundle.tar.gz"
    run.tarn("support-bundle", "-c", NAME, "-o", str(path), "--with-names", "--without", "doctor")
    with tarfile.open(path) as tar:
        for member in tar:
            held = tar.extractfile(member)
            assert held is not None
            run.canaries.look(f"support bundle: {member.name}", held.read())
    path.unlink()


def _misused(run: Run, spec: str) -> None:
    """What is refused says why, and not with what."""
    run.tarn("up", "-f", written(run.house, {**run.secret, "hf": "another"}), code=None)
    given = run.house.root / "given"
    (given / "store").rename(given / "right")
    (given / "store").write_text(canary_of_a_wrong_password(run))
    run.tarn("secrets", "check", "-f", written(run.house, run.secret), code=2)
    (given / "right").rename(given / "store")
    written(run.house, run.secret)
    run.tarn("status", "-c", NAME, "--no-such-option", code=2)
    assert Path(spec).exists()


def canary_of_a_wrong_password(run: Run) -> str:
    return run.canaries.new("wrong")


def _doors(run: Run) -> None:
    """What speaks to Ranger Admin, and what Knox and HAProxy believe each other by."""
    given = run.house.root / "given"
    gate = secrets.token_urlsafe(40)
    run.canaries.add("gate", gate)
    run.canaries.add("ranger admin", PASSWORD)
    for name, text in (("gate", gate), ("ranger", PASSWORD)):
        (given / name).write_text(text)
        (given / name).chmod(0o600)
    (given / "policies.yaml").write_text("service: tarn_quiet\npolicies: []\n")
    door = ("--url", "http://127.0.0.1:1", "--gate-file", str(given / "gate"))
    knox = ("lb", "knox", "config", *door, "--out", str(run.house.root / "knox"))
    run.tarn(*knox)
    run.tarn(*knox, "--dry-run")
    with RecordedAdmin() as admin:
        asked = (str(given / "policies.yaml"), "--url", admin.url)
        for verb in ("install", "check"):
            run.tarn("ranger", verb, *asked, "--password-file", str(given / "ranger"), code=None)
        assert admin.calls, "it was asked"
        run.tarn("ranger", "check", *asked, "--password-file", str(given / "gate"), code=None)
        admin.status = 500
        run.tarn("ranger", "check", *asked, "--password-file", str(given / "ranger"), code=None)


def _looked_at(run: Run, spec: str) -> None:
    for words in (
        ("status", "-c", NAME, "-o", "json"),
        ("events", "-c", NAME),
        ("why", "-c", NAME),
        ("logs", "-c", NAME),
        ("logs", "-c", NAME, FIRST),
        ("doctor", "-f", spec),
        ("config", "explain", "-f", spec),
    ):
        run.tarn(*words, code=None)


def _asked(run: Run) -> None:
    """Ask every route as everybody: with each secret, with a wrong one, in each place."""
    base = run.house.ref(NAME)["url"]
    quoted = urllib.parse.quote(run.secret["api"], safe="")
    basic = base64.b64encode(f"tarn:{run.secret['api']}".encode()).decode()
    told: list[dict[str, str]] = [
        {},
        {"X-TARN-Token": run.secret["api"]},
        {"X-TARN-Token": run.secret["api"], "Accept": "application/json"},
        {"X-TARN-Token": run.secret["proxy"], "X-TARN-User": "alice"},
        {"X-TARN-Token": run.secret["api"][:-1]},
        {"Authorization": f"Basic {basic}"},
        {"Authorization": f"Negotiate {basic}"},
        {"X-TARN-User": run.secret["api"]},
    ]
    paths = [path.replace("{name}", "lb1") for path in ACTIONS if not path.endswith("stream")]
    paths += [f"{path}?token={quoted}" for path in ("/metrics", "/config", "/nowhere")]
    paths += ["/api/v1/status?model=../../etc"]
    bad = b'{"replicas": "many"'
    for path in paths:
        for headers in told:
            _ask(run, base + path, headers, None)
        _ask(run, base + path, {**told[1], "Content-Type": "application/json"}, bad)


def _ask(run: Run, url: str, headers: dict[str, str], body: bytes | None) -> None:
    context = ssl.create_default_context(cafile=str(run.house.root / "given" / "authority.pem"))
    method = "GET" if body is None else "PUT"
    request = urllib.request.Request(url, body, headers, method=method)
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(request, timeout=10) as answer:
            said = answer.headers.as_bytes() + answer.read()
    except urllib.error.HTTPError as error:
        said = error.headers.as_bytes() + error.read()
    where = urllib.parse.urlsplit(url).path
    run.canaries.look(f"answer to {method} {where} of {sorted(headers)}", said)


def _taken_over(run: Run) -> None:
    before = run.house.ref(NAME)["epoch"]
    processes = run.house.processes(NAME)
    (master,) = [pid for pid, argv in processes.items() if "tarn.master" in argv]
    kill(master)
    until(lambda: _epoch(run.house) not in ("", before), 30, "a new master")
    until(lambda: FIRST in ids(run.house.status(NAME)), 30, "it sees the instance")


def _epoch(house: House) -> str:
    try:
        return str(house.ref(NAME)["epoch"])
    except (OSError, ValueError):
        return ""


def test_no_secret_stands_where_it_must_not(run: Run) -> None:
    """In no argument, environment, file, log, answer or message, and in none of its forms."""
    assert run.canaries.leaks == set()


def test_every_secret_was_seen_where_it_belongs(run: Run) -> None:
    """Who looks for the wrong thing, or in the wrong place, finds nothing either."""
    assert run.canaries.looked > 300_000
    unseen = run.canaries.forms.keys() - run.canaries.seen
    # These stand nowhere but in the user's own files; of the key its lines in PEM were seen.
    assert unseen == {"tls key", "store", "wrong", "ranger admin"}
    logs = run.house.directory(NAME) / "logs"
    assert (logs / FIRST / "triton.stderr").stat().st_size > 0
    assert [path.name for path in run.house.directory(NAME).iterdir()] == ["logs"]
