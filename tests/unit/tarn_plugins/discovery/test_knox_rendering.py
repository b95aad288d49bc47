"""Knox's files, as they are rendered."""

import json
import xml.etree.ElementTree as ET
import zipfile

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tarn.errors import ConfigError, ProviderError
from tarn_plugins.discovery.knox.checks import examine, parse
from tarn_plugins.discovery.knox.commands import knox
from tarn_plugins.discovery.knox.rendering import Balancers, Ensemble, files

ZOOKEEPER = Ensemble("zk1:2181,zk2:2181", "/services/triton/instances")
HAPROXY = Balancers(("http://lb1:8080",))
NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,12}", fullmatch=True)
SHAPES = st.one_of(
    st.builds(
        Ensemble,
        st.lists(
            st.builds("{}:{}".format, NAMES, st.integers(1, 65535)), min_size=1, max_size=3
        ).map(",".join),
        st.lists(NAMES, min_size=1, max_size=4).map(lambda parts: f"/{'/'.join(parts)}"),
    ),
    st.lists(
        st.builds("http://h{}:{}".format, st.integers(0, 99), st.integers(1, 65535)),
        min_size=1,
        max_size=3,
        unique=True,
    ).map(lambda urls: Balancers(tuple(urls))),
)


def topology(shape, name="triton"):
    return parse(files(shape, name)[f"topologies/{name}.xml"].encode())


@given(SHAPES)
def test_what_was_named_stands_in_the_topology(shape):
    """Every URL as a URL; the ensemble and its path on one line of HaProvider's value."""
    made = topology(shape)
    (service,) = made.services
    urls = [url for url, _ in service.urls]
    values = [row.value for one in made.providers if one.role == "ha" for row in one.parameters]
    match shape:
        case Balancers(named):
            assert urls == list(named)
            assert len(values) == (len(named) > 1)
        case Ensemble(servers, namespace):
            assert urls == []
            pairs = dict(pair.split("=") for pair in values[0].split(";"))
            assert pairs["zookeeperEnsemble"] == servers
            assert pairs["zookeeperNamespace"] == namespace
    assert not any(sign.isspace() for value in values for sign in value)


@given(SHAPES)
def test_the_doctor_finds_but_one_fault_in_what_is_rendered(shape):
    """Nobody authenticates yet, which the operator must say; the rest at most warns."""
    found = examine("triton.xml", files(shape)["topologies/triton.xml"].encode())
    assert [one.code for one in found if one.fatal] == ["TARN-3330"]


@given(SHAPES)
def test_descriptor_and_topology_say_the_same(shape):
    """The same providers with the same parameters, the same URLs."""
    made = files(shape, "llama")
    providers = json.loads(made["shared-providers/llama-providers.json"])["providers"]
    descriptor = json.loads(made["descriptors/llama.json"])
    read = topology(shape, "llama")
    assert [(p["role"], p["name"], p["params"]) for p in providers] == [
        (p.role, p.name, {row.name: row.value for row in p.parameters}) for p in read.providers
    ]
    (service,) = descriptor["services"]
    assert service.get("urls", []) == [url for url, _ in read.services[0].urls]
    assert descriptor["provider-config-ref"] == "llama-providers.json"


def test_the_service_has_routes_to_triton_and_to_the_master_and_no_others():
    """Each route has a rule that leads to the same path of the fleet."""
    made = files(HAPROXY)
    service = ET.fromstring(made["services/triton/2.0.0/service.xml"])
    assert dict(service.attrib) == {"role": "TRITON", "name": "triton", "version": "2.0.0"}
    routes = [one.get("path") for one in service.iter("route")]
    below = ["v2", "v2/**", "v1/**", "metrics", "tarn/**"]
    assert routes == [f"/triton/{path}" for path in below]
    rules = ET.fromstring(made["services/triton/2.0.0/rewrite.xml"])
    to = {one.get("pattern"): one.find("rewrite").get("template") for one in rules}
    assert to["*://*:*/**/triton/v2/{path=**}?{**}"] == "{$serviceUrl[TRITON]}/v2/{path=**}?{**}"
    assert len(to) == len(routes)


def test_no_user_and_no_password_is_invented():
    """Who authenticates is an example in a comment, marked as one."""
    text = files(HAPROXY)["topologies/triton.xml"]
    assert "users." not in text
    assert "ADD YOUR AUTHENTICATION PROVIDER" in text
    assert all(one.role != "authentication" for one in topology(HAPROXY).providers)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Balancers(("lb1:8080",)),
        lambda: Balancers(("http://lb1:8080/v2",)),
        lambda: Balancers(("http://user:word@lb1",)),
        lambda: Balancers(("http://lb1:0",)),
        lambda: Balancers(("http://lb1:x",)),
        lambda: Balancers(("http://lb 1",)),
        lambda: Ensemble("zk1:2181;enabled=false", "/services"),
        lambda: Ensemble("zk1", "/services"),
        lambda: Ensemble("zk1:2181, zk2:2181", "/services"),
        lambda: Ensemble("zk1:2181", "services"),
        lambda: Ensemble("zk1:2181", "/services;enabled=false"),
        lambda: Ensemble("zk1:2181", "/a\n/b"),
        lambda: files(HAPROXY, "../../etc/x"),
        lambda: files(HAPROXY, ""),
        lambda: files(HAPROXY, acl="alice"),
        lambda: files(HAPROXY, acl="alice;*;* <x>"),
    ],
)
def test_what_would_become_something_else_in_the_file_is_refused(wrong):
    """Knox cuts at ';' and '='; a topology's name is a file's name and a part of URLs."""
    with pytest.raises(ConfigError, match="'"):
        wrong()


def test_the_command_writes_the_files_and_lists_them(tmp_path):
    """Directories are made; a second run writes the same."""
    arguments = ["config", "--url", "http://lb1:8080", "--name", "llama", "--out", str(tmp_path)]
    for _ in range(2):
        done = CliRunner().invoke(knox, arguments, catch_exceptions=False)
        listed = done.stdout.splitlines()
        assert listed == [str(tmp_path / path) for path in files(HAPROXY, "llama")]
        for path, text in files(HAPROXY, "llama").items():
            assert (tmp_path / path).read_text() == text


def test_a_dry_run_prints_the_files_and_writes_none(tmp_path):
    """What would be written can be read first."""
    arguments = ["config", "--zookeeper", "zk1:2181", "--dry-run", "--out", str(tmp_path)]
    done = CliRunner().invoke(knox, arguments, catch_exceptions=False)
    assert "zookeeperEnsemble=zk1:2181" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("named", [[], ["--url", "http://lb1", "--zookeeper", "zk1:2181"]])
def test_knox_asks_either_haproxy_or_zookeeper(named):
    """Neither and both are refused."""
    done = CliRunner().invoke(knox, ["config", *named])
    assert isinstance(done.exception, ConfigError)


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    """A file stands where the directory would be."""
    (tmp_path / "services").write_text("")
    done = CliRunner().invoke(knox, ["config", "--url", "http://lb1", "--out", str(tmp_path)])
    assert isinstance(done.exception, ProviderError)
    assert str(tmp_path) in str(done.exception)


def test_the_jar_is_copied_or_the_way_to_build_it_is_said(tmp_path):
    """A distribution may have been made without a JDK."""
    done = CliRunner().invoke(knox, ["jar", "--out", str(tmp_path)])
    if isinstance(done.exception, ProviderError):
        assert done.exception.code == "TARN-3310"
        assert "nox -s knox_jar" in str(done.exception)
    else:
        assert done.stdout.strip() == str(tmp_path / "tarn-knox.jar")
        with zipfile.ZipFile(tmp_path / "tarn-knox.jar") as made:
            assert "tarn/knox/InstancesURLManager.class" in made.namelist()
