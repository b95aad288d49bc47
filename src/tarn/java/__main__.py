"""Start a JVM on a thread, then run a module: ``python -m tarn.java JVM MODULE [ARGUMENT]...``.

JVM is a `HadoopJvm` as JSON. MODULE starts the same one itself, when it needs it, and gets the one
of the thread, or its error. So Java loads its classes while Python imports its modules.
"""

import contextlib
import json
import os
import runpy
import sys
import threading
from collections.abc import Mapping, Sequence

from tarn.errors import TarnError
from tarn.java.hadoop_jvm import HadoopJvm
from tarn.java.jvm import import_jpype


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run the module that *arguments* name, as ``python -m`` does."""
    settings, module, *_ = arguments
    jvm = HadoopJvm.from_plain(json.loads(settings))
    thread = threading.Thread(target=_start, args=(jvm, environ), name="jvm-start", daemon=True)
    thread.start()
    # Here, since this hides numpy for a moment from all threads. Without JPype MODULE says so.
    with contextlib.suppress(TarnError):
        import_jpype()
    sys.argv = list(arguments[1:])
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _start(jvm: HadoopJvm, environ: Mapping[str, str]) -> None:
    # MODULE raises a failure again.
    with contextlib.suppress(Exception):
        jvm.start(environ)
        jvm.warm_up()


if __name__ == "__main__":
    main(sys.argv[1:], dict(os.environ))
