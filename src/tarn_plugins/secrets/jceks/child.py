"""The process with the JVM: one question on standard input, one answer on standard output.

`java` starts it as a module. All else that would be written to standard output, by Java too, goes
to standard error.
"""

import base64
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from tarn.errors import ConfigError, ProviderError, ProviderMissingError, TarnError
from tarn.java import describe, hadoop_classpath, java_home, jvm, kerberos_options, leave
from tarn_plugins.secrets.jceks import keystore
from tarn_plugins.secrets.jceks.password import HADOOPS_DEFAULT, VARIABLE

__all__ = ["main"]

HEAP_MIB = 128
_SECURITY = "org.apache.hadoop.security"
_PATIENCE = {
    # A person waits: Hadoop's own values make minutes of a name node that is away.
    "ipc.client.connect.max.retries": "1",
    "ipc.client.connect.timeout": "5000",
    "ipc.client.connect.max.retries.on.timeouts": "1",
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.retry.policy.enabled": "false",
}
_OTHERS = 0o077
_CUT = (
    "java.io.EOFException",
    "java.io.UTFDataFormatException",
    "java.io.StreamCorruptedException",
)
"""What Java says of a keystore that was cut, or written over."""


def _begin(order: Mapping[str, Any], classpath: tuple[str, ...]) -> None:
    environ = order["environ"]
    if order["password"] is not None:
        # Hadoop looks nowhere else first; the environment that others of this user can read
        # (/proc/PID/environ) is the one that the process was started with
        os.putenv(VARIABLE, order["password"])
    options = ("-Xms16m", *kerberos_options(environ))
    jvm.start(classpath, HEAP_MIB, java_home(environ, order["java_home"]), options)


def read(order: Mapping[str, Any]) -> dict[str, Any]:
    """Return every secret of a keystore on Hadoop, and whether others may read the file."""
    conf, provider, entry = _hadoop(order)
    mode = entry.getPermission().toShort() if entry is not None else 0
    if entry is None:
        raise ConfigError(
            "there is no such file",
            code="TARN-3740",
            next_step="`tarn secrets put NAME` creates it; or correct options.path.",
        )
    _examine(conf, entry.getPath(), order["where"])
    opened = _open(conf, provider)
    values = {}
    for alias in opened.getAliases():
        text = jvm.load("java.lang.String")(opened.getCredentialEntry(alias).getCredential())
        values[str(alias)] = str(text)
    return {"values": values, "open": bool(mode & _OTHERS)}


def write(order: Mapping[str, Any]) -> None:
    """Put one secret into a keystore on Hadoop, made where it is missing: Hadoop renames it."""
    conf, provider, entry = _hadoop(order)
    if entry is not None:
        _examine(conf, entry.getPath(), order["where"])
    opened = _open(conf, provider)
    name = order["parts"]["name"]
    if opened.getCredentialEntry(name) is not None:
        opened.deleteCredentialEntry(name)
    opened.createCredentialEntry(
        name, jvm.load("java.lang.String")(order["parts"]["value"]).toCharArray()
    )
    opened.flush()


def edit(order: Mapping[str, Any]) -> str:
    """Return a keystore with one secret put into it, base64: its bytes come and go by the pipe.

    The entry is what Hadoop's provider makes of it; every other entry stays what it is.
    """
    parts = order["parts"]
    _begin(order, ())
    opened = jvm.load("java.security.KeyStore").getInstance("JCEKS")
    array = jvm.load("java.lang.String")
    guard = array(order["password"] or HADOOPS_DEFAULT).toCharArray()
    data = base64.b64decode(parts["data"])
    if data:
        keystore.examine(data[: keystore.HEAD], order["where"])
    opened.load(jvm.load("java.io.ByteArrayInputStream")(data) if data else None, guard)
    key = jvm.load("javax.crypto.spec.SecretKeySpec")(parts["value"].encode(), "AES")
    made = jvm.load("java.security.KeyStore$SecretKeyEntry")(key)
    protected = jvm.load("java.security.KeyStore$PasswordProtection")(guard)
    opened.setEntry(parts["name"], made, protected)
    out = jvm.load("java.io.ByteArrayOutputStream")()
    opened.store(out, guard)
    return base64.b64encode(bytes(out.toByteArray())).decode()


_QUESTIONS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "read": read,
    "write": write,
    "edit": edit,
}


def _hadoop(order: Mapping[str, Any]) -> tuple[Any, str, Any]:
    """Return Hadoop's configuration, the provider's name, and the file; None: there is none."""
    _begin(order, hadoop_classpath(order["environ"], order["hadoop_home"]))
    conf = jvm.load("org.apache.hadoop.conf.Configuration")()
    for name, value in _PATIENCE.items():
        conf.set(name, value)
    login = jvm.load(f"{_SECURITY}.UserGroupInformation")
    login.setConfiguration(conf)
    if login.isSecurityEnabled() and not login.getLoginUser().hasKerberosCredentials():
        raise ProviderError(
            "jceks",
            "Hadoop asks for Kerberos, and there is no valid ticket",
            code="TARN-3744",
            next_step="Run kinit.",
        )
    path = jvm.load("org.apache.hadoop.fs.Path")(order["parts"]["uri"])
    try:
        entry = path.getFileSystem(conf).getFileStatus(path)
    except jvm.load("java.io.FileNotFoundException"):
        entry = None
    return conf, order["parts"]["provider"], entry


def _examine(conf: Any, path: Any, where: str) -> None:
    """Refuse what is not a JCEKS keystore: Hadoop itself would speak of a wrong format only."""
    stream = path.getFileSystem(conf).open(path)
    try:
        head = bytearray()
        while len(head) < keystore.HEAD and (byte := stream.read()) >= 0:
            head.append(byte)
    finally:
        stream.close()
    keystore.examine(bytes(head), where)


def _open(conf: Any, provider: str) -> Any:
    conf.set("hadoop.security.credential.provider.path", provider)
    found = jvm.load(f"{_SECURITY}.alias.CredentialProviderFactory").getProviders(conf)
    return found.get(0)


def _reply(order: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": _QUESTIONS[order["question"]](order)}
    except TarnError as error:
        return {"error": _parts(error)}
    except Exception as error:  # noqa: BLE001 (the asker must hear of it, whatever it is)
        return {"error": _parts(_told(error))}


def _told(error: Exception) -> TarnError:
    """Return what *error*, mostly one of Java's, means for a person; never the text of a value."""
    if not hasattr(error, "getCause"):
        traceback.print_tb(error.__traceback__)  # places only
        found = f"failed by {type(error).__name__}, which is a bug in TARN"
        return ProviderError("jceks", found, code="TARN-3744")
    fault = describe(error)
    said = f"{fault.message} {fault.root}"
    if "password" in said.lower():
        return keystore.wrong_password("")
    if "keystore format" in said.lower() or fault.is_a(*_CUT):
        return ConfigError("is a damaged keystore", code="TARN-3741")
    if fault.is_a("java.lang.ClassCastException"):
        found = "holds an entry that Hadoop's provider did not make, and cannot read"
        return ConfigError(found, code="TARN-3741")
    if fault.is_a(f"{_SECURITY}.AccessControlException"):
        return ConfigError(f"this user may not do that: {fault}", code="TARN-3740")
    return ProviderError("jceks", str(fault), code="TARN-3744")


def _parts(error: TarnError) -> dict[str, str]:
    kind = "provider"
    if isinstance(error, ConfigError):
        kind = "config"
    elif isinstance(error, ProviderMissingError):
        kind = "missing"
    return {
        "kind": kind,
        "found": error.found,
        "code": error.code,
        "right": error.right,
        "next_step": error.next_step.replace("runtime.options.", "options."),
    }


def main() -> None:
    """Answer one question; leaves without waiting for Java's threads."""
    writing = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    reply = json.dumps(_reply(json.loads(sys.stdin.buffer.read()))).encode()
    with os.fdopen(writing, "wb") as out:
        out.write(reply)
    leave(0)


if __name__ == "__main__":
    main()
