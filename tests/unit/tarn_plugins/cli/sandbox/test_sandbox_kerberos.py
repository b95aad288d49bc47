"""A sandbox with Kerberos, before anything is made."""

import stat
import xml.etree.ElementTree as ET
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.errors import ProviderError
from tarn_plugins.cli.sandbox.configuration import SandboxSite, files
from tarn_plugins.cli.sandbox.daemons import command, daemons, format_command
from tarn_plugins.cli.sandbox.kerberos import REALM, Realm, orders, principals, with_sbin
from tarn_plugins.cli.sandbox.options import SandboxOptions, addresses
from tarn_plugins.cli.sandbox.rest import ProgramHdfs, files_in

SITE = SandboxSite("/home/anna/.tarn/sandbox", "anna")
OPTIONS = st.builds(
    SandboxOptions,
    nodes=st.integers(1, 4),
    ha=st.booleans(),
    kerberos=st.just(True),
    token_life_s=st.floats(0, 1e6),
    network=st.integers(1, 254),
)
LISTED = """\
drwxr-xr-x   - anna supergroup          0 2026-11-28 04:01 /tmp/a dir
-rw-r--r--   1 anna supergroup         12 2026-11-28 04:01 /tmp/a dir/a file
drwxrwxrwt   - anna supergroup          0 2026-11-28 04:01 /tmp/empty
"""


def everything(options: SandboxOptions) -> dict[str, str]:
    rows = {}
    for path, text in files(options, SITE).items():
        if path.endswith("-site.xml"):
            for row in ET.fromstring(text.encode()).iter("property"):
                rows[f"{path} {row.findtext('name')}"] = row.findtext("value", "")
    return rows


@given(OPTIONS)
def test_every_principal_in_the_files_is_made(options: SandboxOptions) -> None:
    """``_HOST`` aside, which is a host that has one too; so is every keytab."""
    made = principals(options, "anna")
    for name, value in everything(options).items():
        if name.endswith("principal") and "_HOST" not in value:
            assert value.removesuffix(f"@{REALM}") in made
        if "keytab" in name.rpartition(" ")[2]:
            folder, _, keytab = value.rpartition("/")
            assert folder == f"{SITE.directory}/data/kerberos"
            assert keytab.removesuffix(".keytab") in made.values()
    told = orders(options, "anna", "/k").splitlines()
    assert [line.split()[-1] for line in told[::2]] == list(made)
    assert {part.partition("/")[2] for part in made} - {""} <= set(addresses(options))


@given(OPTIONS)
def test_every_daemon_of_java_is_told_of_the_realm(options: SandboxOptions) -> None:
    """The KDC is first, a program, and listens on an address of the sandbox."""
    first, *others = daemons(options, "/d")
    assert command(first, "java", "/d") == ("krb5kdc", "-n")
    flag = "-Djava.security.krb5.conf=/d/etc/kerberos/krb5.conf"
    for one in others:
        assert (flag in command(one, "java", "/d")) == (one.kind != "zk")
    flags = next(one.flags for one in others if one.kind == "nn")
    assert flag in format_command("java", "/d", flags)
    text = files(options, SITE)["etc/kerberos/kdc.conf"]
    listened = [
        line.split()[-1].partition(":")[0] for line in text.splitlines() if "listen" in line
    ]
    assert set(listened) <= set(addresses(options).values())
    assert len(listened) == 2


@given(OPTIONS)
def test_a_short_life_of_tokens_is_hdfs_s_and_clients_connections_are_short_too(
    options: SandboxOptions,
) -> None:
    """Without it everything is Hadoop's own."""
    made = everything(options)
    life = made.get("etc/hadoop/hdfs-site.xml dfs.namenode.delegation.token.max-lifetime")
    idle = made.get("etc/hadoop/core-site.xml ipc.client.connection.maxidletime")
    assert (life is None) == (idle is None) == (not options.token_life_s)
    if life is not None:
        assert int(life) == round(options.token_life_s * 1000)


def test_without_kerberos_nothing_speaks_of_it() -> None:
    """No file, no daemon, no host name."""
    plain = SandboxOptions()
    assert not any("kerberos" in path for path in files(plain, SITE))
    assert "kdc" not in {one.name for one in daemons(plain, "/d")}
    assert not any(one.flags for one in daemons(plain, "/d"))
    assert not any(name.startswith("kdc.") for name in addresses(plain))


def programs(folder: Path, **scripts: str) -> dict[str, str]:
    """Return an environ whose programs these scripts are."""
    for name, text in scripts.items():
        file = folder / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def realm(tmp_path: Path, environ: dict[str, str]) -> Realm:
    return Realm(tmp_path / "s", SandboxOptions(kerberos=True), "anna", environ)


def test_what_is_missing_is_named_with_its_packages(tmp_path: Path) -> None:
    """Before anything is made; administrators' programs are looked for in their own directories."""
    with pytest.raises(ProviderError, match=r"kinit.*krb5-user") as caught:
        realm(tmp_path, {"PATH": str(tmp_path)}).check()
    assert caught.value.code == "TARN-3501"
    assert with_sbin({"PATH": "/bin"})["PATH"] == "/bin:/usr/sbin:/sbin"


def test_a_realm_is_made_once_and_its_master_key_is_no_argument(tmp_path: Path) -> None:
    """A program that fails is told with its words; the next time it begins anew."""
    said = tmp_path / "said"
    (tmp_path / "bin").mkdir()
    keytab = tmp_path / "s" / "data" / "kerberos" / "user.keytab"
    environ = programs(
        tmp_path / "bin",
        kdb5_util=f'echo "$*" >>{said}; read key; [ ${{#key}} -ge 32 ]',
        **{"kadmin.local": "cat; exit 0", "kinit": "echo no such principal; exit 1"},
    )
    one = realm(tmp_path, environ)
    with pytest.raises(ProviderError, match="addprinc -randkey anna"):
        one.make()
    programs(tmp_path / "bin", **{"kadmin.local": f"touch {keytab}"})
    one.make()
    one.make()
    assert said.read_text() == f"-r {REALM} create -s\n" * 2
    attrs.evolve(one, options=SandboxOptions(kerberos=True, nodes=4)).make()
    assert len(said.read_text().splitlines()) == 3, "a fourth node has no key yet"
    assert keytab.parent.stat().st_mode & 0o077 == 0
    with pytest.raises(ProviderError, match="no such principal"):
        one.log_in()


def test_no_ticket_is_within_reach_of_daemons_and_so_of_containers(tmp_path: Path) -> None:
    """The user, the administrator and the daemons have three different places."""
    one = realm(tmp_path, {})
    places = {each["KRB5CCNAME"] for each in (one.client, one.administrator, one.daemon)}
    assert len(places) == 3
    assert "KRB5_KDC_PROFILE" not in one.client


def test_files_are_read_from_what_the_program_prints() -> None:
    """A directory counts where it is empty, as over HTTP; names may have spaces."""
    assert files_in(LISTED) == ("/tmp/a dir/a file", "/tmp/empty/")
    assert files_in("") == ()


def test_directories_are_made_with_few_words() -> None:
    """Each is a second of a JVM."""
    ran = []

    def run(*words: str) -> str:
        ran.append(words)
        return LISTED

    one = ProgramHdfs(run, "anna")
    one.make({"/a": "755", "/b": "755", "/c": "1777"})
    assert [words[1] for words in ran] == ["-mkdir", "-chown", "-chmod", "-chmod"]
    assert ran[-1] == ("fs", "-chmod", "755", "/a", "/b")
    one.remove("/a")
    assert ran[-1][1:3] == ("-rm", "-r")
    assert one.listing("/tmp") == files_in(LISTED)
