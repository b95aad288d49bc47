"""Every way to write where a keystore lies."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn_plugins.secrets.jceks import JceksSettings
from tarn_plugins.secrets.jceks.place import HadoopKeystore, LocalKeystore, place

PATHS = st.lists(st.text("abz09._-", min_size=1).filter(lambda t: t.strip(".")), min_size=1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/etc/hf.jceks", LocalKeystore(Path("/etc/hf.jceks"))),
        ("file:///etc/hf.jceks", LocalKeystore(Path("/etc/hf.jceks"))),
        ("localjceks://file/etc/hf.jceks", LocalKeystore(Path("/etc/hf.jceks"))),
        ("jceks://file/etc/hf.jceks", LocalKeystore(Path("/etc/hf.jceks"))),
        ("hdfs:///u/hf.jceks", HadoopKeystore("hdfs:///u/hf.jceks")),
        ("hdfs://nn:8020/u/hf.jceks", HadoopKeystore("hdfs://nn:8020/u/hf.jceks")),
        ("jceks://hdfs/u/hf.jceks", HadoopKeystore("hdfs:///u/hf.jceks")),
        ("jceks://hdfs@nn:8020/u/hf.jceks", HadoopKeystore("hdfs://nn:8020/u/hf.jceks")),
        ("jceks://s3a@bucket/hf.jceks", HadoopKeystore("s3a://bucket/hf.jceks")),
        ("jceks://abfs@box@acc.net/hf.jceks", HadoopKeystore("abfs://box@acc.net/hf.jceks")),
    ],
)
def test_a_place_is_understood(text: str, expected: LocalKeystore | HadoopKeystore) -> None:
    """Paths, URIs, and the names of providers that `hadoop credential` takes."""
    assert place(text) == expected


@given(st.sampled_from(["hdfs", "s3a", "o3fs"]), st.sampled_from(["", "nn:8020", "a@b.c"]), PATHS)
def test_a_provider_means_the_file_that_it_was_made_of(
    scheme: str, authority: str, parts: list[str]
) -> None:
    """What Hadoop is told, and what was written, are one place."""
    written = place(f"{scheme}://{authority}/{'/'.join(parts)}")
    assert isinstance(written, HadoopKeystore)
    assert place(written.provider) == written


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not an absolute path"),
        ("hf.jceks", "not an absolute path"),
        ("/etc/", "not an absolute path"),
        ("bcfks://hdfs/x", "BCFKS"),
        ("localbcfks://file/x", "BCFKS"),
        ("user:///", "credentials of one process"),
        ("hdfs://nn:8020", "names no file"),
        ("hdfs://nn:8020/dir/", "names no file"),
        ("jceks://hdfs", "names no file"),
        ("HDFS 1://x/y", "no scheme"),
        ("https://me:hunter2@nn/x", "contains a password"),
    ],
)
def test_what_is_no_place_is_refused(text: str, said: str) -> None:
    """In words, and without the password of a URI."""
    with pytest.raises(ValueError, match=said) as caught:
        place(text)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("password", ["hunter2", "file:", "env:", "", "file:etc/pw"])
def test_a_password_is_a_place_and_never_the_password(password: str) -> None:
    """Somebody may write the password itself there: it is not repeated."""
    with pytest.raises(ValueError, match="; use ") as caught:
        JceksSettings("/etc/hf.jceks", password=password)
    assert "hunter2" not in str(caught.value)
