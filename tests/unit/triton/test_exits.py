"""How a process ended, and the memory that it lacked, in the words of those who know."""

import pytest

from tarn.triton.exits import MemoryUse, ended, killed, memory_use

USAGE = (
    "Current usage: 4.1 GB of 4 GB physical memory used; 5.9 GB of 8.4 GB virtual memory used. "
    "Killing container.\nDump of the process-tree for container_1_0001_01_000002 :\n"
    "\t|- PID PPID PGRPID SESSID CMD_NAME USER_MODE_TIME(MILLIS) SYSTEM_TIME(MILLIS) "
    "VMEM_USAGE(BYTES) RSSMEM_USAGE(PAGES) FULL_CMD_LINE\n"
)
HEAD = "Container [pid=8423,containerID=container_1_0001_01_000002] is running "


@pytest.mark.parametrize(
    ("said", "use"),
    [
        (f"{HEAD}beyond physical memory limits. {USAGE}", ("physical", "4.1 GB", "4 GB")),
        (
            f"[2026-11-29 08:00:00.123]{HEAD}180224B beyond the 'PHYSICAL' memory limit. {USAGE}",
            ("physical", "4.1 GB", "4 GB"),
        ),
        (f"{HEAD}beyond virtual memory limits. {USAGE}", ("virtual", "5.9 GB", "8.4 GB")),
        (f"{HEAD}76B beyond the 'VIRTUAL' memory limit. {USAGE}", ("virtual", "5.9 GB", "8.4 GB")),
        (
            (
                f"{HEAD}beyond physical memory limits. Current usage: 512.5 MB of 512 MB physical "
                "memory used; 1 GB of 1.0 GB virtual memory used. Killing container."
            ),
            ("physical", "512.5 MB", "512 MB"),
        ),
        ("Container exited with a non-zero exit code 143", None),
        (f"Container killed on request. {USAGE}", None),
        ("", None),
    ],
)
def test_yarns_sentence_about_memory_is_read(said: str, use: tuple[str, str, str] | None) -> None:
    """Of Hadoop 2 and of Hadoop 3."""
    assert memory_use(said) == (None if use is None else MemoryUse(*use))


def test_where_a_code_told_the_kind_the_usage_is_enough() -> None:
    """YARN has exit codes of its own for it."""
    assert memory_use(USAGE, "virtual") == MemoryUse("virtual", "5.9 GB", "8.4 GB")
    assert str(memory_use(USAGE, "physical")) == "4.1 GB of 4 GB physical memory"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exited with code 0"),
        (3, "exited with code 3"),
        (128, "exited with code 128"),
        (134, "killed by signal 6 (SIGABRT)"),
        (139, "killed by signal 11 (SIGSEGV)"),
        (137, "killed by signal 9 (SIGKILL)"),
        (-15, "killed by signal 15 (SIGTERM)"),
        (250, "exited with code 250"),
    ],
)
def test_each_code_above_128_is_told_as_its_signal(code: int, words: str) -> None:
    """As far as there is such a signal."""
    assert ended(code) == words
    assert killed(code) is ("SIGKILL" in words)
