"""The process with the JVM: reads one question from standard input, writes one answer.

`KeystoreProcess` starts it as a module. Everything else that it would write to standard output,
also by Java, goes to standard error.
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
from tarn_plugins.secrets.jceks.place import HADOOPS_DEFAULT, VARIABLE

__all__ = ["main"]

HEAP_MIB = 128
_SECURITY = "org.apache.hadoop.security"
_PATIENCE = {
    # A person waits: with Hadoop's own values a name node that is away costs minutes.
    "ipc.client.connect.max.retries": "1",
    "ipc.client.connect.timeout": "5000",
    "ipc.client.connect.max.retries.on.timeouts": "1",
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.retry.policy.enabled": "false",
}
_OTHERS = 0o077
# what Java throws for a keystore that was cut off or overwritten
_CUT = (
    "java.io.EOFException",
    "java.io.UTFDataFormatException",
    "java.io.StreamCorruptedException",
)


def _begin(order: Mapping[str, Any], classpath: tuple[str, ...]) -> None:
    environ = order["environ"]
    if order["password"] is not None:
        # Hadoop looks here first. Other processes of this user see only the environment with which
        # the process was started (/proc/PID/environ), which does not have it.
        os.putenv(VARIABLE, order["password"])
    options = ("-Xms16m", *kerberos_options(environ))
    jvm.start(classpath, HEAP_MIB, java_home(environ, order["java_home"]), options)


def read(order: Mapping[str, Any]) -> dict[str, Any]:
    """Return every secret of a keystore in Hadoop, and whether other users may read the file."""
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
    """Put one secret into a keystore in Hadoop, which is created if it is missing."""
    conf, provider, entry = _hadoop(order)
    if entry is not None:
        _examine(conf, entry.getPath(), order["where"])
    opened = _open(conf, provider)
    name = order["parts"]["name"]
    # Hadoop's provider refuses to create an entry that exists.
    if opened.getCredentialEntry(name) is not None:
        opened.deleteCredentialEntry(name)
    opened.createCredentialEntry(
        name, jvm.load("java.lang.String")(order["parts"]["value"]).toCharArray()
    )
    opened.flush()  # Hadoop writes a new file and renames it


def edit(order: Mapping[str, Any]) -> str:
    """Return a local keystore with one secret put into it, in base64.

    The entry is as Hadoop's provider makes it; every other entry stays the same.
    """
    parts = order["parts"]
    # Java alone writes a local keystore, so no jar of Hadoop is needed.
    _begin(order, ())
    opened = jvm.load("java.security.KeyStore").getInstance("JCEKS")
    array = jvm.load("java.lang.String")
    guard = array(order["password"] or HADOOPS_DEFAULT).toCharArray()
    data = base64.b64decode(parts["data"])
    if data:
        keystore.examine(data[: keystore.HEAD], order["where"])
    opened.load(jvm.load("java.io.ByteArrayInputStream")(data) if data else None, guard)
    # Hadoop's provider stores each secret as if it were a key for AES.
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
    """Return Hadoop's configuration, the provider's name, and the file, which may be None."""
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
    # Hadoop itself would only name a wrong format, and not which one it found.
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
    except Exception as error:  # noqa: BLE001 (the parent must get an answer to any error)
        return {"error": _parts(_told(error))}


def _told(error: Exception) -> TarnError:
    """Translate *error*, mostly one of Java's; the result never quotes a value."""
    if not hasattr(error, "getCause"):
        traceback.print_tb(error.__traceback__)  # without the message, which may quote a value
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
    """Answer one question, and leave without waiting for Java's threads."""
    writing = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    reply = json.dumps(_reply(json.loads(sys.stdin.buffer.read()))).encode()
    with os.fdopen(writing, "wb") as out:
        out.write(reply)
    leave(0)


if __name__ == "__main__":
    main()
