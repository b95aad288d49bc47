"""Errors on their way, logs in what Hadoop prints, and what a client keeps."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tarn import errors
from tarn.domain import Epoch
from tarn.interfaces import ClusterRef
from tarn_plugins.runtime.yarn.client.deployer import forget, keep, read_ref
from tarn_plugins.runtime.yarn.client.hadoop_child import pack, unpack
from tarn_plugins.runtime.yarn.hadoop.web import log_contents

PARTS = {"code": "TARN-3130", "where": "here", "right": "that", "next_step": "do"}
ERRORS = [
    errors.TarnError("found", **PARTS),
    errors.RefusedError("found", **PARTS),
    errors.NotFoundError("found", **PARTS),
    errors.ProviderError("java", "found", retry_after_s=2.0, **PARTS),
    errors.LaunchError("yarn", "found", **PARTS),
]
REF = ClusterRef("llama", "yarn", Epoch(5, 1), "http://n:1", application_id="application_1_0001")


def test_errors_arrive_as_the_class_they_were() -> None:
    """Attribute by attribute."""
    for error in ERRORS:
        back = unpack(pack(error))
        assert type(back) is type(error)
        assert vars(back) == vars(error)


def test_a_class_of_its_own_arrives_as_its_nearest_base() -> None:
    """A caller that branches on the base is right."""
    assert type(unpack(pack(errors.DiscoveryError("x", "found")))) is errors.ProviderError
    assert type(unpack(pack(errors.Superseded("1-1", "2-1")))) is errors.TarnError


@given(st.lists(st.tuples(st.from_regex(r"[a-z.]{1,12}", fullmatch=True), st.binary(max_size=200))))
def test_logs_come_back_byte_for_byte(files: list[tuple[str, bytes]]) -> None:
    """Whatever a log holds."""
    printed = b"Container: container_1 on nm1\n" + b"".join(
        b"LogType:%s\nLogLastModifiedTime:Sat\nLogLength:%d\nLogContents:\n%s\n"
        b"End of LogType:%s\n%s\n\n" % (name.encode(), len(data), data, name.encode(), b"*" * 9)
        for name, data in files
    )
    assert list(log_contents(printed)) == files


def test_a_log_may_hold_the_marks_of_a_log() -> None:
    """The length counts, not the marks."""
    inner = b"LogType:x\nLogLength:1\nLogContents:\na\nEnd of LogType:x\n"
    printed = b"LogType:y\nLogLength:%d\nLogContents:\n%s\nEnd of LogType:y\n" % (len(inner), inner)
    assert list(log_contents(printed)) == [("y", inner)]


def test_what_is_kept_is_private_and_comes_back(tmp_path: Path) -> None:
    """Nobody else may read it, and only what a client needs is there."""
    directory = tmp_path / "clusters" / "llama"
    keep(directory, REF, {"api_token": b"t", "spec.yaml": b"s", "staged.json": b"not kept"})
    assert read_ref(directory) == REF
    assert {p.name for p in directory.iterdir()} == {"api_token", "spec.yaml", "ref.json"}
    assert {stat.S_IMODE(p.stat().st_mode) for p in directory.iterdir()} == {0o600}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_threads_that_keep_at_once_leave_one_whole_content(tmp_path: Path) -> None:
    """Neither a mixture, nor an error, nor anything beside it."""
    contents = [bytes([65 + i]) * 50_000 for i in range(4)]

    def write(data: bytes) -> None:
        for _ in range(10):
            keep(tmp_path, REF, {"spec.yaml": data})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, contents))
    assert (tmp_path / "spec.yaml").read_bytes() in contents
    assert {p.name for p in tmp_path.iterdir()} == {"spec.yaml", "ref.json"}


def test_only_the_cluster_that_ended_is_forgotten(tmp_path: Path) -> None:
    """A later one of the name keeps its files; twice is once."""
    keep(tmp_path / "llama", REF, {"api_token": b"t"})
    forget(tmp_path / "llama", "application_1_0000")
    assert read_ref(tmp_path / "llama") == REF
    forget(tmp_path / "llama", "application_1_0001")
    forget(tmp_path / "llama", "application_1_0001")
    assert not (tmp_path / "llama").exists()
