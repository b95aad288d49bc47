"""What opens a file of HDFS: the inode that refused, not the one that was asked for."""

import pytest

from tarn_plugins.runtime.yarn.diagnostics import permission_step
from tarn_plugins.runtime.yarn.master.exits import explain
from tarn_plugins.runtime.yarn.messages import Completed

SAID = (
    "AccessControlException: Permission denied: user={user}, access={access}, "
    'inode="{inode}":alice:staff:{mode}'
)


def said(
    user: str = "bob", access: str = "EXECUTE", inode: str = "/closed", mode: str = "drwx------"
) -> str:
    return SAID.format(user=user, access=access, inode=inode, mode=mode)


@pytest.mark.parametrize(
    ("message", "uri", "command"),
    [
        (said(), "hdfs://nn:8020/closed/models", "-setfacl -m user:bob:--x hdfs://nn:8020/closed`"),
        (said(), "/closed/models", "-setfacl -m user:bob:--x /closed`"),
        (said(), "/closed/models", "-chmod a+x /closed`"),
        (said(), "viewfs://all/m", "-setfacl -m user:bob:--x /closed`"),
        (said(access="READ_EXECUTE"), "", "user:bob:r-x /closed`"),
        (said(access="READ", mode="-rw-------"), "", "user:bob:r-- /closed`"),
        (said(access="READ", mode="-rw-------"), "", "-chmod a+r /closed`"),
        (said(access="WRITE"), "", "user:bob:-wx /closed`"),
        (said(inode="/a b"), "", "user:bob:--x '/a b'`"),
        (said(mode="drwxrwx--T"), "", "-setfacl"),
        (said(user="alice", mode="d-wx------", access="READ_EXECUTE"), "", "-chmod u+rx /closed`"),
    ],
)
def test_the_inode_of_the_message_is_opened(message: str, uri: str, command: str) -> None:
    """With the least that was lacking, for the user who lacked it."""
    assert command in permission_step(message, uri)


@pytest.mark.parametrize("message", ["", "Permission denied", "user=bob is not the owner"])
def test_a_message_without_an_inode_brings_no_command(message: str) -> None:
    """Nothing is guessed."""
    assert permission_step(message) == ""


def test_a_container_whose_files_are_closed_says_what_opens_them() -> None:
    """In the reason of its end."""
    status = explain(Completed("c", -1000, said()), asked=False)
    assert status.reason == (
        "the node may not read one of its files. As alice, who owns /closed: "
        "`hdfs dfs -setfacl -m user:bob:--x /closed`, or for everybody "
        "`hdfs dfs -chmod a+x /closed`"
    )
