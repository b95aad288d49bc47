"""Jars of a distribution from a Maven repository of its own: a real Maven, and a real server."""

import base64
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from servers.maven import one_maven
from servers.yarn import context as real_context

from tarn.errors import ProviderError
from tarn.interfaces import ClientContext
from tarn.testing.context import client_context
from tarn_plugins.cli.sandbox import jars

pytestmark = pytest.mark.yarn

OURS = "3.3.6.9.9.9.0-32"
NAMES = (
    "hadoop-common",
    "hadoop-hdfs",
    "hadoop-hdfs-client",
    "hadoop-yarn-client",
    "hadoop-yarn-server-nodemanager",
    "hadoop-yarn-server-resourcemanager",
    "hadoop-yarn-server-timelineservice",
    "hadoop-yarn-server-web-proxy",
)
PASSWORD = "sesame"
SETTINGS = """<settings><servers><server><id>hadoop</id><username>anna</username>
<password>{}</password></server></servers></settings>"""


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Maven repository with a Hadoop that is nowhere else; its jars are empty."""
    root = tmp_path_factory.mktemp("distribution")
    for name in NAMES:
        folder = root / "org" / "apache" / "hadoop" / name / OURS
        folder.mkdir(parents=True)
        (folder / f"{name}-{OURS}.pom").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>org.apache.hadoop</groupId>"
            f"<artifactId>{name}</artifactId><version>{OURS}</version></project>"
        )
        (folder / f"{name}-{OURS}.jar").write_bytes(b"PK\x05\x06" + bytes(18))
    return root


@pytest.fixture
def context(tmp_path: Path) -> ClientContext:
    """A client whose Maven keeps what it fetches of Hadoop here, and the rest where it always does.

    Maven's own folder is seen through links: its plugins are there.
    """
    real, home = Path.home() / ".m2" / "repository", tmp_path / "home"
    mine = home / ".m2" / "repository"
    for inner in (Path(), Path("org"), Path("org/apache")):
        (mine / inner).mkdir(parents=True, exist_ok=True)
        for each in (real / inner).iterdir() if (real / inner).is_dir() else ():
            if each.name not in ("org", "apache", "hadoop"):
                (mine / inner / each.name).symlink_to(each)
    options = f"-Dmaven.repo.local={mine} -Duser.home={home}"
    environ = {**real_context().environ, "MAVEN_OPTS": options}
    return attrs.evolve(client_context(tmp_path), environ=environ)


def fetched(context: ClientContext, repository: str, version: str = OURS) -> list[str]:
    with one_maven():
        return [jar.name for jar in jars.fetched(version, context, repository)]


def refused(context: ClientContext, repository: str, version: str = OURS) -> str:
    with pytest.raises(ProviderError) as caught:
        fetched(context, repository, version)
    assert caught.value.code == "TARN-3502"
    assert not [path for path in context.paths.cache.iterdir() if path.is_dir()]
    return str(caught.value)


class Server(http.server.SimpleHTTPRequestHandler):
    """Serves files to who has the password, if there is one; remembers what was asked."""

    asked: list[str]
    wants: str = ""

    def do_GET(self) -> None:
        self.asked.append(self.path)
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        if self.wants and base64.b64decode(given).decode() != f"anna:{self.wants}":
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="maven"')
            self.end_headers()
            return
        super().do_GET()

    def log_message(self, *_words: object) -> None:
        """Say nothing."""


@pytest.fixture
def served(distribution: Path) -> Iterator[tuple[str, type[Server]]]:
    kind = type("Once", (Server,), {"asked": []})
    handler = functools.partial(kind, directory=str(distribution))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", kind
        server.shutdown()
        thread.join()


def test_its_jars_come_and_are_kept_by_their_version(context, served) -> None:
    """What is wrong is said; what was not found once is asked for again; fetched once."""
    url, server = served
    server.wants = PASSWORD
    assert "settings.xml, as the <server> with the id hadoop" in refused(context, url)
    home = Path(context.paths.home).parent / "home" / ".m2"
    (home / "settings.xml").write_text(SETTINGS.format(PASSWORD))
    wrong = refused(context, f"{url}/nothing")
    assert f"there is no hadoop-common {OURS} in" in wrong
    assert f"org/apache/hadoop/hadoop-common/{OURS}/ must exist below it" in wrong
    assert fetched(context, url) == sorted(f"{name}-{OURS}.jar" for name in NAMES)
    asked = len(server.asked)
    assert any(path.endswith(f"hadoop-common-{OURS}.jar") for path in server.asked)
    assert len(fetched(context, url)) == len(NAMES)
    assert len(server.asked) == asked
    assert [one.name for one in context.paths.cache.iterdir()] == [f"hadoop-{OURS}"]
