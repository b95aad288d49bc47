"""What is found wrong in a topology of Knox."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import CODES, Severity
from tarn_plugins.discovery.knox.checks import examine
from tarn_plugins.discovery.knox.rendering import Balancers, Ensemble, files

GUIDE = """\
<topology>
    <gateway>
        <provider>
            <role>ha</role>
            <name>HaProvider</name>
            <enabled>true</enabled>
            <param>
                <name>TRITON</name>
                <value>
                    enabled=true;
                    maxFailoverAttempts=3;
                    zookeeperEnsemble=zk1:2181,zk2:2181;
                    zookeeperNamespace=/services/triton
                </value>
            </param>
        </provider>
    </gateway>
    <service>
        <role>TRITON</role>
    </service>
</topology>
"""
RANGER = """\
<topology><gateway>
  <provider><role>authentication</role><name>ShiroProvider</name><enabled>true</enabled></provider>
  <provider><role>authorization</role><name>XASecurePDPKnox</name><enabled>true</enabled></provider>
</gateway><service><role>TRITON</role></service></topology>
"""
LDAP = "<provider><role>authentication</role><name>ShiroProvider</name></provider>"
PASSWORD = LDAP.replace("</name>", "</name><param><name>users.a</name><value>x</value></param>")
ENSEMBLE = Ensemble("zk1:2181", "/services/triton/instances")
TWO = Balancers(("http://lb1:8080", "http://lb2:8080"))


def found(text: str | bytes) -> dict[str, list[int]]:
    """Return code to lines."""
    data = text.encode() if isinstance(text, str) else text
    lines: dict[str, list[int]] = {}
    for one in examine("t.xml", data):
        name, _, line = one.where.rpartition(":")
        assert name == "t.xml"
        assert one.fatal is (CODES[one.code].severity is Severity.ALERT)
        lines.setdefault(one.code, []).append(int(line))
    return lines


def whole(shape=TWO, **changes: str) -> str:
    """Return a good topology, with words of it replaced."""
    text = files(shape)["topologies/triton.xml"].replace("<gateway>", f"<gateway>{LDAP}")
    for old, new in changes.items():
        marks = {"lb": "enableLoadBalancing=true;", "ns": "/instances", "url": "http://lb1:8080"}
        assert marks[old] in text
        text = text.replace(marks[old], new)
    return text


def test_the_topology_of_the_java_tarn_s_guide_cannot_work():
    """Every reason at once, each with its line."""
    assert found(GUIDE) == {
        "TARN-3330": [1],
        "TARN-3333": [1],
        "TARN-3320": [9],
        "TARN-3321": [9],
        "TARN-3322": [9],
        "TARN-3323": [9],
    }


def test_ranger_s_plugin_for_knox_sees_no_models():
    """Nor does that topology say whom to ask."""
    assert found(RANGER) == {"TARN-3332": [3], "TARN-3324": [4]}


def test_a_good_topology_has_no_fault():
    """For ZooKeeper there is a reminder of the jar, which the file cannot show."""
    assert found(whole()) == {}
    assert list(found(whole(ENSEMBLE))) == ["TARN-3323"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (whole(lb=""), "TARN-3321"),
        (whole(lb="enableLoadBalancing=true; "), "TARN-3320"),
        (whole(lb="enableLoadbalancing=true;"), "TARN-3327"),
        (whole(ENSEMBLE, ns=""), "TARN-3322"),
        (whole(url="lb1:8080"), "TARN-3328"),
        (whole(url="http://lb1:port"), "TARN-3328"),
        (whole(url="http://lb1:8080/v2"), "TARN-3328"),
        (whole().replace("<role>ha<", "<role>other<"), "TARN-3326"),
        (whole(ENSEMBLE).replace("zookeeperEnsemble=zk1:2181;", ""), "TARN-3325"),
        (whole().replace("ShiroProvider", "Anonymous"), "TARN-3331"),
        (whole().replace("AclsAuthz", "RangerPDPKnox"), "TARN-3332"),
        (whole().replace(">authorization<", ">other<"), "TARN-3333"),
        (whole().replace(LDAP, PASSWORD), "TARN-3334"),
        (whole().replace(">TRITON<", ">WEBHDFS<"), "TARN-3314"),
        ("<topology/>", "TARN-3314"),
        ("<gateway><topology/></gateway>", "TARN-3311"),
        ('{"services": []}', "TARN-3312"),
        ("", "TARN-3312"),
        ("<topology>", "TARN-3312"),
        ("<topology>&nix;</topology>", "TARN-3312"),
        ('<?xml version="1.0" encoding="nix"?><topology/>', "TARN-3312"),
        ("<topology>" * 50, "TARN-3311"),
        ("<!DOCTYPE topology><topology/>", "TARN-3313"),
    ],
)
def test_a_mistake_has_its_code(text, code):
    """One that makes others nameless stands alone."""
    codes = found(text)
    assert code in codes
    if code < "TARN-3320":
        assert list(codes) == [code]


def test_no_entity_reads_another_file(tmp_path):
    """A document type ends the reading before anything is looked up."""
    (tmp_path / "secret").write_text("secret-word")
    text = (
        f'<!DOCTYPE topology [<!ENTITY x SYSTEM "file://{tmp_path}/secret">]>'
        "<topology><service><role>&x;</role></service></topology>"
    )
    (one,) = examine("t.xml", text.encode())
    assert one.code == "TARN-3313"
    assert "secret-word" not in str(one)


def test_a_provider_that_is_switched_off_does_nothing():
    """Then nobody authenticates."""
    text = whole().replace("ShiroProvider</name>", "ShiroProvider</name><enabled>false</enabled>")
    assert found(text) == {"TARN-3330": [1]}


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_whatever_the_file_holds_it_is_a_finding(data):
    """No bytes make it raise."""
    assert found(data)


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Z")), max_size=12),
        st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Z")), max_size=12),
        max_size=5,
    )
)
def test_any_parameter_of_the_ha_provider_is_read(pairs):
    """Blanks are found wherever they are; unknown keys are named."""
    root = ET.fromstring(whole())
    value = next(v for v in root.iter("value") if "enableLoadBalancing" in v.text)
    value.text = ";".join(f"{key}={word}" for key, word in pairs.items())
    codes = found(ET.tostring(root))
    assert ("TARN-3320" in codes) == any(sign.isspace() for sign in value.text)
    assert set(codes) <= {f"TARN-33{n}" for n in (20, 21, 22, 23, 25, 27)}
