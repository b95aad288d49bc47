"""What a master loads: each library makes its start longer, and stays in its memory."""

import subprocess
import sys

ABSENT = ("httpx", "pandas", "numpy", "grpc", "tarn.follow", "tarn.client", "tarn.cluster")


def test_a_master_loads_no_library_of_clients() -> None:
    """It is a server: the modules by which clients ask it took a quarter of its imports."""
    program = "import sys, tarn.master, tarn_plugins.runtime.yarn.master.application\n"
    program += f"print([name for name in {ABSENT} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "[]"
