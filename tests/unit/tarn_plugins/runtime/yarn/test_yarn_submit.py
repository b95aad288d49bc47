"""The question `submit`, over a Hadoop of which only the answers matter."""

import json
import threading
from base64 import b64encode
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from files_in_memory import FilesInMemory

from tarn.errors import LaunchError, ProviderError
from tarn.java import ClassArchive
from tarn_plugins.runtime.yarn.child.serving import Questions
from tarn_plugins.runtime.yarn.client import submission as module
from tarn_plugins.runtime.yarn.client.cluster import Hadoop
from tarn_plugins.runtime.yarn.client.reports import ApplicationReport
from tarn_plugins.runtime.yarn.hadoop import web
from tarn_plugins.runtime.yarn.messages import FileEntry

ID = "application_1_0001"
STAGING = "hdfs://nn/tarn"
PARTS = {
    "name": "llama",
    "queue": "q",
    "priority": 0,
    "memory_mib": 1024,
    "vcores": 1,
    "max_attempts": 2,
    "node_label": "",
    "python": "python3",
    "argv": ["m"],
    "environ": {},
    "file_systems": [],
}


class JavaError(Exception):
    """What Java threw."""


class ClientFilesInMemory(FilesInMemory):
    """With what only a client does; every file is *owner*'s."""

    owner = "me"

    def entry(self, uri: str) -> FileEntry:
        return attrs.evolve(super().entry(uri), owner=self.owner)

    def directory(self, uri: str, mode: int) -> None:
        """Do nothing: files make their directories."""

    def upload(self, local: Path, uri: str, *, mode: int = 0o600) -> FileEntry:
        self.write(uri, local.read_bytes(), mode=mode)
        return self.entry(uri)


class FakeHadoop:
    """Just enough of `cluster.Hadoop`; *deaf*: it answers nothing once something was submitted."""

    user, federated, conf, staging = "me", False, None, STAGING
    principal, keytab, private = "", b"", False
    web = SimpleNamespace(proves=lambda _url: True)

    def __init__(self, *proxies: str, deaf: bool = False) -> None:
        context = SimpleNamespace(getApplicationId=lambda: ID)
        created = SimpleNamespace(getApplicationSubmissionContext=lambda: context)
        self.client = SimpleNamespace(createApplication=lambda: created)
        self.files, self.deaf = ClientFilesInMemory(lambda: 0.0), deaf
        self.killed: list[str] = []
        self._proxies = proxies

    def proxies(self) -> tuple[str, ...]:
        return self._proxies

    def report(self, application_id: str, *, attempts: bool = False) -> ApplicationReport:
        if self.deaf:
            raise ProviderError("yarn", "the RM does not answer")
        return ApplicationReport(application_id, "ACCEPTED")

    def kill(self, application_id: str, why: str) -> None:
        assert why
        self.killed.append(application_id)

    end = Hadoop.end

    def refused(self, application_id: str, error: Exception) -> LaunchError:
        return LaunchError("yarn", f"refused: {error}", where=application_id)


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.jvm, "throwable", lambda: JavaError)
    monkeypatch.setattr(module.credentials, "collect", lambda *_: SimpleNamespace(addAll=print))
    monkeypatch.setattr(module.credentials, "ends_at", lambda _: None)
    monkeypatch.setattr(web, "placement", lambda *_, **__: web.Placement("scheduling"))


def asking(hadoop: FakeHadoop) -> Questions:
    questions = Questions()
    questions._hadoop = hadoop  # type: ignore[assignment]
    return questions


@pytest.mark.parametrize(
    ("proxies", "proves"),
    [
        (["http://10.0.0.1:8088"], True),
        (["http://10.0.0.1:8088", "http://[2001:db8::1]:8088"], True),
        (["http://127.0.1.1:8088"], False),
        (["http://10.0.0.1:8088", "http://127.0.0.1:8088"], False),
        (["http://[::1]:8088"], False),
        (["http://[::ffff:127.0.0.1]:8088"], False),
        ([], False),
    ],
)
def test_a_loopback_address_proves_nothing(proxies: list[str], *, proves: bool) -> None:
    """Every process of the master's own node would be believed."""
    wanted = module.MasterRequest(**PARTS, files={})
    submitted = module._submitted(FakeHadoop(*proxies), wanted, (STAGING,), None)
    assert submitted.proxy_proves is proves


def submit(hadoop: FakeHadoop, **files: bytes) -> Any:
    brought = {name.replace("_dot_", "."): b64encode(data).decode() for name, data in files.items()}
    return asking(hadoop).submit(**PARTS, files=brought)


@pytest.mark.parametrize("deaf", [False, True])
def test_a_submission_that_failed_is_killed_and_leaves_no_files(
    monkeypatch: pytest.MonkeyPatch, *, deaf: bool
) -> None:
    """The RM may have taken it before its answer was lost; the first error is the one raised."""
    hadoop = FakeHadoop(deaf=deaf)

    def lost(*_: Any, **__: Any) -> None:
        raise JavaError("connection reset")

    monkeypatch.setattr(module, "_submit", lost)
    with pytest.raises(LaunchError, match="refused: connection reset"):
        submit(hadoop)
    assert hadoop.killed == ([] if deaf else [ID])
    assert not hadoop.files.content


def test_the_first_error_counts_where_the_files_cannot_be_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name node that went away, too."""
    hadoop = FakeHadoop()

    def gone(*_: str) -> None:
        raise ProviderError("yarn", "the name node does not answer")

    def lost(*_: Any, **__: Any) -> None:
        hadoop.files.before = gone
        raise JavaError("connection reset")

    monkeypatch.setattr(module, "_submit", lost)
    with pytest.raises(LaunchError, match="refused: connection reset"):
        submit(hadoop)


@pytest.mark.parametrize("private", [False, True])
def test_a_keytab_travels_in_the_credentials_alone(
    monkeypatch: pytest.MonkeyPatch, *, private: bool
) -> None:
    """No file of it lies on Hadoop; that it is sent in the clear is said."""
    hadoop, carried = FakeHadoop(), {}
    hadoop.keytab, hadoop.principal, hadoop.private = b"the-key", "svc@R", private

    def collect(_conf: Any, _uris: Any, files: Any) -> Any:
        carried.update(files)
        return SimpleNamespace(addAll=lambda _more: None)

    monkeypatch.setattr(module.credentials, "collect", collect)
    monkeypatch.setattr(module.credentials, "ends_at", lambda _: 4e9)
    monkeypatch.setattr(module, "_submit", lambda *_: None)
    notes = submit(hadoop, api_token=b"a-long-token", tls_dot_pem=b"the-tls-key")["notes"]
    assert carried["kerberos.keytab"] == b"the-key"
    assert carried["tls.pem"] == b"the-tls-key"
    private = {path for path in hadoop.files.content if "/private/" in path}
    assert private == {f"{STAGING}/llama/private/api_token"}
    assert "keytab of svc@R" in notes[0]
    assert any("not encrypted" in note for note in notes) != private
    told = json.loads(carried["yarn.json"])
    assert told["principal"] == "svc@R"
    assert told["file_systems"] == [f"{STAGING}/llama", "/"]


@pytest.mark.parametrize("submitted", [False, True])
def test_only_the_classes_of_a_submission_are_archived(
    monkeypatch: pytest.MonkeyPatch, *, submitted: bool
) -> None:
    """Other questions use too few of them."""
    done: list[str] = []
    archive = SimpleNamespace(
        exists=False,
        recorded=True,
        make=lambda: done.append("made"),
        forget=lambda: done.append("forgotten"),
    )
    monkeypatch.setattr(module, "_submit", lambda *_: None)
    questions = asking(FakeHadoop())
    questions._archive = archive  # type: ignore[assignment]
    if submitted:
        questions.submit(**PARTS, files={})
    questions.close()
    assert done == (["made"] if submitted else ["forgotten"])


def test_a_master_gets_the_archive_that_lies_on_the_nodes_side(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not yet at the first submission, which copies it meanwhile; and never another user's."""
    given: list[dict[str, bool]] = []
    monkeypatch.setattr(
        module,
        "_submit",
        lambda *parts: given.append({file.name: file.public for file in parts[3]}),
    )
    file = tmp_path / "key.jsa"
    file.write_bytes(b"classes")
    hadoop = FakeHadoop()
    for name in ("first", "second"):
        questions = asking(hadoop)
        questions._archive = ClassArchive(file, "/java", (), ())
        questions.submit(**{**PARTS, "name": name}, files={})
        for thread in threading.enumerate():
            if thread.name == "bring-classes":
                thread.join(20)
    packed = {**PARTS, "name": "packed", "environment": f"{STAGING}/python.tar.gz"}
    hadoop.files.write(packed["environment"], b"", mode=0o644)
    questions.submit(**packed, files={})
    hadoop.files.owner = "somebody else"
    questions.submit(**{**PARTS, "name": "theirs"}, files={})
    assert given[0].keys() == {".tarn/run", ".tarn/launch"}
    assert given[1] == {".tarn/run": True, ".tarn/launch": True, ".tarn/key.jsa": True}
    assert ".tarn/key.jsa" not in given[2]
    assert ".tarn/key.jsa" not in given[3]
