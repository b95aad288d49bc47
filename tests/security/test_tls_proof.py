"""What is wrong with a certificate is said by `up`, before anything starts."""

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from certificates import HOSTS, Authority, Issued, private_pem
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from tarn.cluster.start.server_certificate import ends_soon, server_certificate
from tarn.domain import Secret
from tarn.domain.spec import TlsSpec
from tarn.errors import ConfigErrors
from tarn.plain.master_files import CLIENT_CA, TLS, TLS_CA

ALIAS = "tarn.tls.keystore.password"
PASSWORD = "changeit-canary"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def good(authority: Authority) -> Issued:
    return authority.issue("master")


def brought(tls: TlsSpec, secrets: Mapping[str, str] | None = None) -> Mapping[str, bytes]:
    held = {name: Secret(value) for name, value in (secrets or {}).items()}
    return server_certificate(tls, held, HOSTS[:1], time.time())


def codes(tls: TlsSpec, secrets: Mapping[str, str] | None = None) -> tuple[list[str], str]:
    """Return the codes of what is wrong, and all the words."""
    with pytest.raises(ConfigErrors) as caught:
        brought(tls, secrets)
    return [error.code for error in caught.value.errors], str(caught.value)


def test_a_good_pair_is_brought_as_pem(authority: Authority, good: Issued) -> None:
    """Key first, then the certificate; clients know it by the authority that the spec names."""
    tls = TlsSpec(str(good.cert), str(good.key), ca=str(authority.ca), client_ca=str(authority.ca))
    files = brought(tls)
    assert files[TLS].index(b"PRIVATE KEY") < files[TLS].index(b"BEGIN CERTIFICATE")
    assert files[TLS_CA].strip() == files[CLIENT_CA].strip() == authority.ca.read_bytes().strip()


def test_without_an_authority_clients_know_the_last_of_the_chain(good: Issued) -> None:
    """A certificate that stands alone is believed by itself."""
    files = brought(TlsSpec(str(good.cert), str(good.key)))
    assert files[TLS_CA].strip() == good.cert.read_bytes().strip()


def test_one_file_may_hold_all(tmp_path: Path, authority: Authority, good: Issued) -> None:
    """Certificate, chain and key, in any order of key and certificates."""
    whole = tmp_path / "all.pem"
    whole.write_bytes(good.cert.read_bytes() + authority.ca.read_bytes() + good.key.read_bytes())
    assert brought(TlsSpec(str(whole)))[TLS_CA].strip() == authority.ca.read_bytes().strip()


def test_a_key_of_another_certificate(authority: Authority, good: Issued) -> None:
    """It is refused, and so is a chain whose first certificate is not the machine's."""
    other = authority.issue("other")
    assert codes(TlsSpec(str(good.cert), str(other.key)))[0] == ["TARN-3721"]


def test_an_encrypted_key(tmp_path: Path, good: Issued) -> None:
    """Nobody could type its password; the command that decrypts it is named."""
    key = tmp_path / "locked.key"
    key.write_bytes(private_pem(good.private, BestAvailableEncryption(b"x")))
    found, words = codes(TlsSpec(str(good.cert), str(key)))
    assert found == ["TARN-3722"]
    assert "openssl pkey -in" in words


@pytest.mark.parametrize(
    ("days", "words"), [((-9, -1), "has expired on 20"), ((1, 9), "is not valid before 20")]
)
def test_out_of_its_time(authority: Authority, days: tuple[float, float], words: str) -> None:
    """The day is named."""
    late = authority.issue("late", days=days)
    found, said = codes(TlsSpec(str(late.cert), str(late.key), ca=str(authority.ca)))
    assert found == ["TARN-3723"]
    assert words in said


def test_one_that_ends_soon_is_told_of(authority: Authority, good: Issued) -> None:
    """In words for a person, a month before; nothing is said of others, nor without HTTPS."""
    soon = authority.issue("soon", days=(-1, 9.5))
    files = brought(TlsSpec(str(soon.cert), str(soon.key)))
    assert ", in 9 days" in ends_soon(files, time.time())
    assert ends_soon(files, time.time() - 25 * 86400) == ""
    assert ends_soon({}, time.time()) == ""


def test_other_hosts(authority: Authority) -> None:
    """What the certificate names is named, wildcards too; the common name counts for nothing."""
    elsewhere = authority.issue("localhost", ("gpu1.example.org", "*.gpu.example.org"))
    found, said = codes(TlsSpec(str(elsewhere.cert), str(elsewhere.key)))
    assert found == ["TARN-3727"]
    assert "names gpu1.example.org, *.gpu.example.org" in said
    nobody = authority.issue("nobody", ())
    assert codes(TlsSpec(str(nobody.cert), str(nobody.key)))[0] == ["TARN-3727"]


def test_where_nobody_knows_the_host_any_name_will_do(authority: Authority) -> None:
    """On YARN the master may run on each of several nodes."""
    elsewhere = authority.issue("gpus", ("*.gpu.example.org",))
    assert server_certificate(TlsSpec(str(elsewhere.cert), str(elsewhere.key)), {}, (), time.time())


def test_another_authority(tmp_path: Path, good: Issued) -> None:
    """No client would believe the master."""
    other = Authority(tmp_path, "other")
    assert codes(TlsSpec(str(good.cert), str(good.key), ca=str(other.ca)))[0] == ["TARN-3726"]


def test_everything_at_once(tmp_path: Path, authority: Authority) -> None:
    """A certificate that is late and for others, and a client_ca that is not there."""
    late = authority.issue("both", ("gpu1",), days=(-9, -1))
    gone = str(tmp_path / "gone.pem")
    found, said = codes(TlsSpec(str(late.cert), str(late.key), client_ca=gone))
    assert found == ["TARN-3720", "TARN-3723", "TARN-3727"]
    assert "api.tls.client_ca" in said


@pytest.mark.parametrize(
    ("cert", "key", "words"),
    [
        ("no.pem", None, "cannot be read (No such file or directory)"),
        ("empty", None, "holds no certificate in PEM"),
        ("good.crt", None, "holds no private key in PEM"),
        ("good.crt", "two", "holds 2 private keys in PEM"),
    ],
)
def test_files_of_no_use(
    tmp_path: Path, good: Issued, cert: str, key: str | None, words: str
) -> None:
    """The file is named, and what it lacks."""
    (tmp_path / "empty").write_text("nothing\n")
    (tmp_path / "good.crt").write_bytes(good.cert.read_bytes())
    (tmp_path / "two").write_bytes(2 * good.key.read_bytes())
    tls = TlsSpec(str(tmp_path / cert), None if key is None else str(tmp_path / key))
    found, said = codes(tls)
    assert found == ["TARN-3720"]
    assert words in said


# -- keystores


def keystore(
    directory: Path, kind: str, *pairs: tuple[str, Issued], chain: Authority | None = None
) -> Path:
    """Make a keystore with Java's keytool: what sites have."""
    made = directory / f"store.{kind.lower()}"
    for alias, pair in pairs:
        one = directory / f"{alias}.p12"
        above = [] if chain is None else [chain.certificate]
        one.write_bytes(
            pkcs12.serialize_key_and_certificates(
                alias.encode(),
                pair.private,
                pair.certificate,
                above,
                BestAvailableEncryption(PASSWORD.encode()),
            )
        )
        keytool(
            *("-importkeystore", "-noprompt", "-srckeystore", one, "-srcstoretype", "PKCS12"),
            *("-srcstorepass", PASSWORD, "-destkeystore", made, "-deststoretype", kind),
            *("-deststorepass", PASSWORD),
        )
    return made


def keytool(*arguments: object) -> None:
    subprocess.run(["keytool", *map(str, arguments)], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_keystores_of_java(tmp_path: Path, authority: Authority, good: Issued, kind: str) -> None:
    """One key and its chain come out as they went in; two keys, and a wrong password, do not.

    The password is one of the spec's own secrets (fault 40 of the Java TARN: the YARN cluster's
    provider alone was asked), and stands in nothing that is brought.
    """
    path = keystore(tmp_path, kind, ("master", good), chain=authority)
    tls = TlsSpec(keystore=str(path), keystore_type=kind)
    files = brought(tls, {ALIAS.upper(): PASSWORD})  # stores of Hadoop have one case only
    assert files[TLS].count(b"BEGIN CERTIFICATE") == 2
    assert not any(PASSWORD.encode() in data for data in files.values())
    assert files[TLS_CA].strip() == authority.ca.read_bytes().strip()
    found, said = codes(tls, {ALIAS: "another"})
    assert found == ["TARN-3725"]
    assert "does not open with this password" in said
    assert "another" not in said
    found, said = codes(tls)
    assert (found, f"has no secret named '{ALIAS}'" in said) == (["TARN-3725"], True)
    keystore(tmp_path, kind, ("second", authority.issue("second")))
    found, said = codes(tls, {ALIAS: PASSWORD})
    assert found == ["TARN-3724"]
    assert "holds 2 private keys" in said


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_keystore_without_a_key(tmp_path: Path, authority: Authority, kind: str) -> None:
    """A truststore is none to serve with."""
    path = tmp_path / "trust"
    keytool(
        *("-importcert", "-noprompt", "-alias", "ca", "-file", authority.ca, "-keystore", path),
        *("-storetype", kind, "-storepass", PASSWORD),
    )
    found, said = codes(TlsSpec(keystore=str(path)), {ALIAS: PASSWORD})
    assert found == ["TARN-3724"]
    assert "holds no private key" in said


def test_what_is_no_keystore(tmp_path: Path, good: Issued) -> None:
    """PEM files, JCEKS, and a keystore that was cut, whatever its end."""
    for data in (good.cert.read_bytes(), b"\xce\xce\xce\xce" + bytes(40), b""):
        path = tmp_path / "store"
        path.write_bytes(data)
        assert codes(TlsSpec(keystore=str(path)), {ALIAS: PASSWORD})[0] == ["TARN-3724"]
    whole = keystore(tmp_path, "JKS", ("master", good)).read_bytes()
    for size in (4, 24, 60, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert codes(TlsSpec(keystore=str(path)), {ALIAS: PASSWORD})[0] == ["TARN-3725"]
