"""A master on YARN that speaks HTTPS: who reaches it, and what the ResourceManager's proxy does."""

from pathlib import Path

import httpx
import pytest
from certificates import Authority
from house import House
from yarn_fleet import Fleet, processes

from tarn_plugins.cli.sandbox import options

pytestmark = [pytest.mark.yarn, pytest.mark.triton]

ONE = {"min": 1, "max": 1, "initial": 1}


@pytest.mark.timeout(240)
def test_a_master_is_known_on_whichever_node_it_runs(yarn_house, hadoop, tmp_path) -> None:
    """From the home that started it, and from one in which nothing was kept.

    The ResourceManager's proxy knows only whom its own Java knows, and says nothing else.
    """
    authority = Authority(tmp_path / "pki")
    nodes = tuple(hadoop.host(name) for name in options.nodes(hadoop.options))
    own = authority.issue("nodes", nodes)
    tls = {"cert": str(own.cert), "key": str(own.key), "ca": str(authority.ca)}
    fleet = Fleet(yarn_house, hadoop, "secured")
    spec = yarn_house.spec("secured", replicas=ONE, api={"tls": tls})
    fleet.up(spec)
    assert fleet.url.startswith(f"https://{nodes[0].partition('.')[0][:2]}")
    fleet.settled(1)
    for process in processes(fleet.application_id):
        assert "PRIVATE KEY" not in " ".join(process.argv)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "tarn.yaml").write_bytes(Path(spec).read_bytes())  # where files lie
    there = House(tmp_path / "there")
    there.environ |= hadoop.environ
    assert there.status("secured")["ready"] == 1
    assert (there.directory("secured") / "tls_ca.pem").exists()
    assert not (there.directory("secured") / "tls.pem").exists()
    plain = httpx.get(fleet.url.replace("https:", "http:"), trust_env=False)
    assert plain.status_code == 400
    proxy = str(yarn_house.ref("secured")["proxy_url"])
    through = httpx.get(f"{proxy}/health", trust_env=False, timeout=30)
    assert through.status_code == 500
    assert "SSLHandshakeException" in through.text
    fleet.down()
