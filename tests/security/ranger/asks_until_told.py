"""A program: ask an authorizer from four threads until SIGTERM, then leave as a master does."""

import json
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from servers.ranger import opened

from tarn.domain import Principal
from tarn.java import leave


def main(folder: Path, url: str, enough: int) -> None:
    stop, told = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    authorizer = opened(folder, url)
    assert authorizer.wait(60)
    counts = [[0, 0] for _ in range(4)]

    def ask(count: list[int]) -> None:
        while not stop.is_set():
            for user in ("alice", "mallory"):
                verdict = authorizer.check(Principal(user, via="spnego"), "infer", "ocr")
                count[0] += 1
                count[1] += verdict.allowed
            if sum(one[0] for one in counts) >= enough and not told.is_set():
                told.set()
                print("enough", flush=True)

    threads = [threading.Thread(target=ask, args=(count,)) for count in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    began = time.monotonic()
    authorizer.close()
    said = {
        "asked": sum(one[0] for one in counts),
        "allowed": sum(one[1] for one in counts),
        "closed_in_s": time.monotonic() - began,
    }
    print(json.dumps(said), flush=True)
    leave(0)


main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
