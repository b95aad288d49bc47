"""A path whose server is away is told, and nobody waits for it."""

import contextlib
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from hanging_mount import hanging_mount

from tarn.triton import mounts

MOUNTINFO = """\
22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:40 / /mnt/models rw,relatime - nfs4 nas:/export/models rw,vers=4.2
31 22 0:41 / /mnt/with\\040space rw - fuse.sshfs somebody@host:/ rw
32 30 0:42 / /mnt/models/inner ro - fuse.rclone hdfs: ro
33 22 0:43 / /mnt/models rw - nfs nas:/newer rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "source"),
    [
        ("/home/me/models", "ext4", "/dev/vda"),
        ("/mnt/models/ocr", "nfs", "nas:/newer"),
        ("/mnt/models", "nfs", "nas:/newer"),
        ("/mnt/models/inner/1", "fuse.rclone", "hdfs:"),
        ("/mnt/modelsandmore", "ext4", "/dev/vda"),
        ("/mnt/with space/x", "fuse.sshfs", "somebody@host:/"),
    ],
)
def test_the_mount_of_a_path_is_found_by_its_text(path: str, kind: str, source: str) -> None:
    """The longest that fits; of two at one place the later one, which covers the other."""
    found = mounts.mount_of(Path(path), MOUNTINFO)
    assert found is not None
    assert (found.kind, found.source) == (kind, source)


def test_a_mount_whose_name_is_not_text_hides_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel writes the bytes of a name as they are; U+2028 and NEL end no line there."""
    listed = tmp_path / "mountinfo"
    odd = (
        b"40 22 0:50 / /mnt/l\xe9a rw - nfs nas:/lea rw\n"
        b"41 22 0:51 / /a\xe2\x80\xa8b rw - nfs n rw\n"
    )
    listed.write_bytes(odd + MOUNTINFO.encode())
    monkeypatch.setattr(mounts, "_MOUNTS", listed)
    assert str(mounts.mount_of(Path("/mnt/models"))) == "the mount /mnt/models (nfs of nas:/newer)"
    found = mounts.mount_of(Path(os.fsdecode(b"/mnt/l\xe9a/x")))
    assert found is not None
    assert found.source == "nas:/lea"


def test_a_process_with_many_open_files_can_look(tmp_path: Path) -> None:
    """`select` takes no descriptor beyond 1023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2048:
        pytest.skip("only so many files may be open here")
    held = list[int]()
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    try:
        while not held or held[-1] < 1024:
            held.append(os.open(os.devnull, os.O_RDONLY))
        assert mounts.unanswered(tmp_path, "models.repository") is None
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_answers_is_well_even_when_it_is_not_there(tmp_path: Path) -> None:
    """A missing directory is for others to tell."""
    (tmp_path / "ocr" / "1").mkdir(parents=True)
    (tmp_path / "ocr" / "config.pbtxt").write_text("")
    assert mounts.unanswered(tmp_path, "models.repository") is None
    assert mounts.unanswered(tmp_path / "absent", "models.repository") is None


STANDS_STILL = (sys.executable, "-I", "-S", "-c", "import os, signal; os.kill(os.getpid(), 19)")
"""Stands in for a look that hangs in the kernel: it stops itself (SIGSTOP) and says nothing."""


def test_a_look_that_hangs_is_left_behind_and_told(tmp_path: Path) -> None:
    """The mount is named, and what to do."""
    began_s = time.monotonic()
    found = mounts.unanswered(tmp_path, "models.repository", within_s=0.2, look=STANDS_STILL)
    assert time.monotonic() - began_s < 30
    assert found is not None
    assert found.code == "TARN-3205"
    assert found.fatal
    assert f"does not answer: {tmp_path} could not be read within 0.2 s" in found.found
    assert "the mount /" in found.found


def test_a_look_that_goes_on_may_take_longer_than_one_answer(tmp_path: Path) -> None:
    """Each sign of life gives it the whole time again."""
    code = "import os, time\nfor _ in range(9): os.write(1, b'.'); time.sleep(0.25)"
    slow = (sys.executable, "-I", "-S", "-c", code)
    assert mounts.unanswered(tmp_path, "x", within_s=2.0, look=slow) is None


def test_an_interrupt_ends_the_wait_at_once(tmp_path: Path) -> None:
    """Ctrl-C while a mount hangs: nobody waits for the rest of the ten seconds."""
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    began_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 (it must not come before this line)
        timer.start()
        mounts.unanswered(tmp_path, "x", within_s=60.0, look=STANDS_STILL)
    assert time.monotonic() - began_s < 30


def test_a_real_mount_whose_server_is_away_is_named(tmp_path: Path) -> None:
    """The path's own look hangs in the kernel; ours ends. Needs root and FUSE."""
    with contextlib.ExitStack() as stack:
        try:
            gone = stack.enter_context(hanging_mount(tmp_path / "gone"))
        except OSError as error:
            pytest.skip(f"no FUSE mount can be made here: {error}")
        found = mounts.unanswered(gone / "models", "models.repository", within_s=0.5)
        assert found is not None
        assert f"the mount {gone} (fuse.gone of nobody) does not answer" in found.found
