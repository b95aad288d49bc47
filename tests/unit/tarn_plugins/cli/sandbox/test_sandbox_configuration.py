"""What a sandbox is made of, before anything is made."""

import ipaddress
import re
import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from tarn_plugins.cli.sandbox.configuration import LABEL, QUEUES, SandboxSite, files, xml
from tarn_plugins.cli.sandbox.daemons import command, daemons, sockets
from tarn_plugins.cli.sandbox.options import (
    PLACEMENTS,
    SandboxOptions,
    addresses,
    host,
    nodes,
    resource_managers,
)

SITE = SandboxSite("/home/anna/.tarn/sandbox", "anna")
OPTIONS = st.builds(
    SandboxOptions,
    nodes=st.integers(1, 4),
    memory_mib=st.integers(256, 65536),
    vcores=st.integers(1, 64),
    gpus=st.integers(0, 8),
    placement=st.sampled_from(PLACEMENTS),
    expiry_s=st.floats(1, 600),
    ha=st.booleans(),
    network=st.integers(1, 254),
)
TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="￾￿")
)


def properties(made: dict[str, str], path: str) -> dict[str, str]:
    rows = ET.fromstring(made[path].encode()).iter("property")
    return {row.findtext("name", ""): row.findtext("value", "") for row in rows}


@given(st.dictionaries(TEXT, TEXT))
def test_any_value_comes_out_of_the_file_as_it_went_in(values: dict[str, str]) -> None:
    """Whatever signs it has."""
    assert properties({"x": xml(values)}, "x") == values


@given(OPTIONS)
def test_every_daemon_has_a_name_and_a_loopback_address_of_its_own(options: SandboxOptions) -> None:
    """No two share a socket, in one sandbox or in two networks."""
    found = addresses(options)
    assert len(set(found.values())) == len(found)
    assert all(ipaddress.ip_address(one).is_loopback for one in found.values())
    assert all(name.endswith(".tarn.test") for name in found)
    every = [one for daemon in daemons(options, "/d") for one in sockets(daemon, options)]
    assert len(set(every)) == len(every)
    assert {address for address, _port in every} == set(found.values())
    other = SandboxOptions(nodes=200, ha=True, network=255 - options.network)
    if other.network != options.network:
        assert not set(found) & set(addresses(other))
        assert not set(found.values()) & set(addresses(other).values())


@given(OPTIONS)
def test_every_address_in_the_files_is_a_name_of_the_sandbox(options: SandboxOptions) -> None:
    """Nothing is left to Hadoop's defaults of 0.0.0.0 among what it is told to bind."""
    made = files(options, SITE)
    known = set(addresses(options))
    for path in made:
        if not path.endswith("-site.xml"):
            continue
        for name, value in properties(made, path).items():
            if re.search(r"(address|manager\.hostname)(\.rm2?)?$", name):
                assert value.partition(":")[0] in known, (path, name)
            assert "0.0.0.0" not in value


@given(OPTIONS)
def test_each_node_is_itself_and_agrees_with_the_rest(options: SandboxOptions) -> None:
    """A fixed port, recovery, a working memory check, its GPUs."""
    made = files(options, SITE)
    common = properties(made, "etc/hadoop/yarn-site.xml")
    for name in nodes(options):
        own = properties(made, f"etc/{name}/yarn-site.xml")
        assert common.items() <= own.items()
        assert own["yarn.nodemanager.address"] == f"{host(name, options)}:18041"
        assert own["yarn.nodemanager.recovery.supervised"] == "true"
        assert own["yarn.nodemanager.pmem-check-enabled"] == "true"
        assert own["yarn.nodemanager.resource.memory.enforced"] == "false"
        gpus = properties(made, f"etc/{name}/node-resources.xml")
        assert gpus == {"yarn.nodemanager.resource-type.yarn.io/gpu": str(options.gpus)}
        assert own["yarn.nodemanager.local-dirs"].startswith(f"{SITE.directory}/data/{name}/")


@given(OPTIONS)
def test_options_become_yarn_s_words(options: SandboxOptions) -> None:
    """Placement, expiry, one or two ResourceManagers."""
    made = files(options, SITE)
    yarn = properties(made, "etc/hadoop/yarn-site.xml")
    assert yarn["yarn.resourcemanager.placement-constraints.handler"] == options.placement
    assert int(yarn["yarn.am.liveness-monitor.expiry-interval-ms"]) >= 1000
    assert ("etc/zk/zoo.cfg" in made) == options.ha
    assert ("hadoop.zk.address" in yarn) == options.ha
    for name in resource_managers(options):
        own = properties(made, f"etc/{name}/yarn-site.xml")
        assert own.get("yarn.resourcemanager.ha.id") == (name if options.ha else None)
    assert SandboxOptions.read({"unknown": 1, "nodes": options.nodes}).nodes == options.nodes


def test_queues_share_everything_and_the_partition_too() -> None:
    """Guaranteed percents sum to 100, with and without the label."""
    queues = properties(files(SandboxOptions(), SITE), "etc/hadoop/capacity-scheduler.xml")
    prefix = "yarn.scheduler.capacity.root"
    for suffix in ("capacity", f"accessible-node-labels.{LABEL}.capacity"):
        assert sum(int(queues[f"{prefix}.{queue}.{suffix}"]) for queue in QUEUES) == 100


def test_a_daemon_s_own_configuration_comes_first_on_its_classpath() -> None:
    """Then the common one, then the jars; small heaps, and the opening that Java 17 wants."""
    by_name = {one.name: one for one in daemons(SandboxOptions(ha=True), "/d")}
    assert set(by_name) == {"zk", "rm", "rm2", "nn", "dn", "nm1", "nm2", "nm3"}
    argv = command(by_name["nm2"], "/java/bin/java", "/d")
    assert argv[0] == "/java/bin/java"
    assert argv[argv.index("-cp") + 1] == "/d/etc/nm2:/d/etc/hadoop:/d/share:/d/lib/*"
    assert argv[-1].endswith(".NodeManager")
    assert {"-Xmx192m", "--add-opens=java.base/java.lang=ALL-UNNAMED"} <= set(argv)
    assert command(by_name["zk"], "java", "/d")[-1] == "/d/etc/zk/zoo.cfg"
