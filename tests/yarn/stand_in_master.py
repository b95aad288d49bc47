"""A master that does nothing but what a deployer sees of one: ``stand_in_master.py MODE …``.

``listen CLASSPATH``: registers where it listens, and stays; ``leave CLASSPATH``: registers, and
unregisters as succeeded; ``exit CODE``: says why on standard error, and ends; ``sleep``: stays
silently.
"""

import json
import socket
import sys
import threading
from pathlib import Path

from tarn.config import environ
from tarn.java import hadoop_classpath, load, start
from tarn_plugins.runtime.yarn.container import epoch
from tarn_plugins.runtime.yarn.hadoop import configuration


def main() -> None:
    mode, *rest = sys.argv[1:]
    print(f"stand-in {mode} in {environ()['CONTAINER_ID']}", file=sys.stderr, flush=True)
    if mode == "exit":
        print("error: nothing can come of this", file=sys.stderr, flush=True)
        sys.exit(int(rest[0]))
    if mode == "sleep":
        threading.Event().wait(120)
        return
    _register(rest[0], leave=mode == "leave")


def _register(classpath: str, *, leave: bool) -> None:
    start(hadoop_classpath({"CLASSPATH": classpath}), 64)
    said = {"epoch": str(epoch(environ())), "files": sorted(p.name for p in Path().iterdir())}
    credentials = load("org.apache.hadoop.security.UserGroupInformation").getCurrentUser()
    aliases = [str(each) for each in credentials.getCredentials().getAllSecretKeys()]
    print("said", json.dumps({**said, "aliases": sorted(aliases)}), file=sys.stderr, flush=True)
    client = load("org.apache.hadoop.yarn.client.api.AMRMClient").createAMRMClient()
    client.init(configuration())
    client.start()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        client.registerApplicationMaster("127.0.0.1", port, f"http://127.0.0.1:{port}")
        print("registered", file=sys.stderr, flush=True)
        for beat in range(600):
            client.allocate(0.5)
            threading.Event().wait(0.2)
            if leave and beat:
                final = load("org.apache.hadoop.yarn.api.records.FinalApplicationStatus")
                client.unregisterApplicationMaster(final.SUCCEEDED, "ended by tarn down", "")
                return


if __name__ == "__main__":
    main()
