"""Hadoop's own words for people: rules of auth_to_local, and its mapping of groups."""

import grp
import os
import pwd

import pytest
from servers.yarn import java

from tarn.http.users import LocalNames
from tarn_plugins.cli.sandbox.sandbox import Sandbox
from tarn_plugins.runtime.yarn.hadoop import configuration
from tarn_plugins.runtime.yarn.hadoop.login import HadoopNames

pytestmark = pytest.mark.yarn

RULES = "RULE:[2:$1@$0](svc-.*@TARN.TEST)s/svc-(.*)@.*/$1/\nRULE:[1:$1@$0](.*@ADMIN.TEST)s/@.*//"
ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def names(shared_hadoop: Sandbox) -> HadoopNames:
    java(shared_hadoop.environ)
    changes = {"hadoop.security.auth_to_local": RULES}
    return HadoopNames(configuration(changes))


def test_a_rule_makes_a_name_and_no_rule_makes_none(names: HadoopNames) -> None:
    """Hadoop's syntax, with what its rules leave out refused; nonsense is nobody, and no error."""
    assert names.short("svc-web/node1@TARN.TEST") == "web"
    assert names.short("eve@ADMIN.TEST") == "eve"
    for stranger in ("alice@OTHER.TEST", "HTTP/node1@OTHER.TEST", "a/b/c@TARN.TEST", "@", ""):
        assert names.short(stranger) == ""


def test_without_rules_no_realm_but_the_own_one_counts(shared_hadoop: Sandbox) -> None:
    """Also where Hadoop itself asks for no Kerberos, and would let any realm's alice be alice."""
    java(shared_hadoop.environ)
    names = HadoopNames(configuration())
    for stranger in ("alice@OTHER.TEST", "HTTP/node1@OTHER.TEST"):
        assert names.short(stranger) == ""


def test_groups_are_those_of_the_machine_and_of_a_stranger_none(names: HadoopNames) -> None:
    """As its default mapping (the shell's, or JNI's) has them."""
    mine = {grp.getgrgid(number).gr_name for number in os.getgrouplist(ME, os.getgid())}
    assert names.groups(ME) == mine == LocalNames().groups(ME)
    assert names.groups("no-such-user-here") == frozenset()
    assert LocalNames().groups("no-such-user-here") == frozenset()
