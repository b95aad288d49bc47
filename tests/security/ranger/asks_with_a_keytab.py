"""A program: say what Ranger decides, where Ranger Admin answers only to tickets."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from servers.ranger import SERVICE, library

from tarn.config import environ
from tarn.domain import Principal
from tarn.java import java_home, kerberos_options, leave, start
from tarn.plugins import load
from tarn.testing.context import master_context


def main(folder: Path) -> None:
    start((), 128, java_home(environ()), kerberos_options(environ()))
    plugins = load()
    factory = plugins.authorizers["ranger"]
    chosen = {
        "service": SERVICE,
        "audit": False,
        "conf_dir": str(folder / "site"),
        "jars": str(library()),
    }
    authorizer = factory.create(plugins.settings(factory, chosen, ""), master_context(folder))
    assert authorizer.wait(60)
    allowed = [
        authorizer.check(Principal(user, via="spnego"), "infer", "ocr").allowed
        for user in ("alice", "bob")
    ]
    print(json.dumps({"allowed": allowed, "ready": authorizer.ready().ready,
                      "reason": authorizer.ready().reason}))  # fmt: skip
    authorizer.close()
    leave(0)


main(Path(sys.argv[1]))
