"""The fake's names and this machine's keep the promises of `UserDirectory`."""

import getpass
import grp
import os
from pathlib import Path

from contract.fake_suites import FakeUserDirectorySuite

from tarn.http.users import LocalNames
from tarn.interfaces import UserDirectory
from tarn.testing.contracts import UserDirectoryContract


class TestFake(FakeUserDirectorySuite):
    """Rules in memory."""


class TestLocal(UserDirectoryContract):
    """This machine's krb5.conf, and its users."""

    known = getpass.getuser()
    known_group = grp.getgrgid(os.getgid()).gr_name

    def make(self, tmp_path: Path) -> UserDirectory:
        return LocalNames()
