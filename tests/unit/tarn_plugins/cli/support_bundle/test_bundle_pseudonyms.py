"""Stand-ins for people and machines: the same everywhere, and none for what all have."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tarn_plugins.cli.support_bundle.pseudonyms import Pseudonyms, people_and_machines

LOG = """\
2026-01-01 connect to gpu7.dc.example.com/10.4.5.6:8032 as alice/gpu7.dc.example.com@DC.EXAMPLE.COM
ugi=alice (auth:KERBEROS) ip=/10.4.5.6 src=/user/bob/models
http://rm.dc.example.com:8088/proxy, and worker12.dc.example.com too; /home/carol/.tarn
fe80::1ff:fe23:4567:890a and 127.0.0.1 and 0.0.0.0 and localhost; user=root; at 12:34:56
fleet-0001: started on nm1.rack.other.example as container_1_0006_04_000002
Container: container_1_0006_01_000001 on nm2.rack.other.example_18041_1795906615578
\tat org.apache.hadoop.ipc.Client.call(Client.java:1); read from config.pbtxt
triton::core::Status; gpu7 is short for it; https://hadoop.apache.org/docs
"""


def test_each_has_one_stand_in() -> None:
    """Names are learnt where a text says what they are, and replaced wherever they stand."""
    names = Pseudonyms()
    names.learn(LOG)
    text = names.replace(LOG)
    for name in (
        "alice",
        "bob",
        "carol",
        "gpu7",
        "worker12",
        "example.com",
        "10.4.5.6",
        "890a",
        "nm1",
        "nm2",
        "other.example",
    ):
        assert name not in text.lower()
    for kept in (
        "127.0.0.1",
        "0.0.0.0",
        "localhost",
        "root",
        "12:34:56",
        "triton::core",
        "org.apache.hadoop.ipc",
        "config.pbtxt",
        "apache.org",
    ):
        assert kept in text
    assert names.stand_ins["gpu7"] == names.stand_ins["gpu7.dc.example.com"]
    assert len({names.stand_ins[one] for one in ("alice", "bob", "carol")}) == 3
    assert (
        names.replace("models of alice: malice") == f"models of {names.stand_ins['alice']}: malice"
    )


def test_fields_of_the_api_name_machines() -> None:
    """Addresses of instances have no scheme."""
    names = Pseudonyms()
    names.learn('{"node": "gpu3:8041", "http": "gpu3:8000", "metrics": "gpu4:8002"}')
    assert set(names.stand_ins) == {"gpu3", "gpu4"}


@given(st.lists(st.text(max_size=60), max_size=3))
def test_learning_is_total_and_replacing_stable(texts: list[str]) -> None:
    """No text is too strange, and what was replaced is not replaced again."""
    names = Pseudonyms()
    for text in texts:
        names.learn(text)
    for text in texts:
        once = names.replace(text)
        assert names.replace(once) == once


def test_hadoops_own_configuration_names_its_machines(tmp_path: Path) -> None:
    """Whoever lives beside them is a machine, too, without any text that says so."""
    (tmp_path / "yarn-site.xml").write_text(
        "<property><name>yarn.resourcemanager.hostname</name><value>rm.dc.example.com</value>"
        "</property><property><name>x</name><value>zk1.dc.example.com:2181,zk2:2181</value></property>"
    )
    environ = {"HADOOP_CONF_DIR": str(tmp_path), "HOME": "/home/ada", "USER": "ada"}
    names = people_and_machines(None, environ)
    names.learn("worker9.dc.example.com is slow")
    assert {"rm.dc.example.com", "zk1", "zk2", "worker9", "ada"} <= names.stand_ins.keys()
