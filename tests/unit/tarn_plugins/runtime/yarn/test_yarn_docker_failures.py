"""What YARN's Docker runtime says when it fails, in words, with the fix and who is to blame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain.codes import CODES
from tarn_plugins.runtime.yarn.master.docker_failures import ROWS, docker_failure
from tarn_plugins.runtime.yarn.master.exits import explain
from tarn_plugins.runtime.yarn.messages import Completed

BEGIN = "[2026-11-28 14:00:00.000]Exception from container-launch.\nContainer id: container_1_1_1\n"
END = (
    "\n[2026-11-28 14:00:00.001]Container exited with a non-zero exit code {0}. Error file: "
    "prelaunch.err.\nLast 4096 bytes of prelaunch.err :\n"
)


def java(words):
    """A refusal of the NodeManager itself."""
    return f"{BEGIN}Exit code: -1\nException message: {words}\nShell error output: " + END.format(
        -1
    )


def native(*lines, code=29):
    """A refusal of container-executor, or of Docker behind it."""
    said = "\n".join(lines)
    return (
        f"{BEGIN}Exit code: {code}\nException message: Launch container failed\n"
        f"Shell error output: {said}\n\nShell output: main : command provided 4\n"
        "Docker run command: /usr/bin/docker run --name=container_1_1_1 tarn/x:1\n"
    ) + END.format(code)


def refused(code, what):
    return f"Error constructing docker command, docker error code={code}, error message='{what}'"


ERROR = "Last 4096 bytes of triton.stderr :\nerror: tarn: "
PORTS = (
    "docker: Error response from daemon: driver failed programming external connectivity on "
    "endpoint x (abc): "
)
SPEC, NODE, NOBODY = "spec", "node", "nobody"
SAID = {
    "bad name": (
        java("Image name 'Bad Image!' doesn't match docker image name pattern"),
        "TARN-3150", SPEC, ["Bad Image!", "triton.image"]),
    "a digest": (
        native(refused(56, "Invalid docker image name")), "TARN-3150", SPEC, ["@sha256"]),
    "no name": (
        java("YARN_CONTAINER_RUNTIME_DOCKER_IMAGE not set!"), "TARN-3150", SPEC, ["triton.image"]),
    "network, yarn-site": (
        java("Disallowed network:  'foo' specified. Allowed networks: are [host, none, bridge]"),
        "TARN-3153", SPEC, ["'foo'", "host, none, bridge", "allowed-container-networks",
                            "yarn-site.xml"]),
    "network, cfg": (
        native("Invalid param 'bridge' requested",
               "Could not find requested network in allowed networks",
               refused(60, "Invalid docker network")),
        "TARN-3153", SPEC, ["'bridge'", "docker.allowed.networks", "container-executor.cfg"]),
    "network, cfg, none allowed": (
        native("Invalid param 'bridge' requested, permitted values list is empty",
               "Could not find requested network in allowed networks"),
        "TARN-3153", SPEC, ["'bridge'"]),
    "network, dockerd": (
        native("docker: Error response from daemon: network lan not found.", code=7),
        "TARN-3153", NODE, ["'lan'", "docker network create"]),
    "runtime, yarn-site": (
        java("Disallowed runtime:  'kata' specified. Allowed runtimes: are [runc, nvidia]"),
        "TARN-3156", SPEC, ["'kata'", "runc, nvidia", "allowed-container-runtimes"]),
    "runtime, cfg": (
        native("Invalid param 'nvidia' requested",
               "Could not find requested runtime in allowed runtimes"),
        "TARN-3156", SPEC, ["'nvidia'", "docker.allowed.runtimes"]),
    "runtime, dockerd 20": (
        native("docker: Error response from daemon: Unknown runtime specified nvidia.",
               "See 'docker run --help'.", code=7),
        "TARN-3156", NODE, ["'nvidia'", "nvidia-ctk"]),
    "runtime, dockerd 25": (
        native("docker: Error response from daemon: unknown or invalid runtime name: nvidia.",
               code=125),
        "TARN-3156", NODE, ["'nvidia'"]),
    "no driver": (
        native("docker: Error response from daemon: failed to create shim task: OCI runtime create "
               "failed: runc create failed: unable to start container process: error during "
               "container init: nvidia-container-cli: initialization error: nvml error: driver not "
               "loaded: unknown.", code=7),
        "TARN-3156", NODE, ["driver not", "nvidia-smi"]),
    "mount syntax": (
        java("Unable to parse user supplied mount list: /etc"), "TARN-3150", SPEC, ["'/etc'"]),
    "mount relative": (
        java("Mount must be a localized resource: nope"), "TARN-3150", SPEC, ["'nope'"]),
    "tmpfs syntax": (
        java("Invalid tmpfs mount : /dev/shm:size=1g"), "TARN-3150", SPEC,
        ["/dev/shm:size=1g", "default-tmpfs-mounts"]),
    "privileged": (
        java("Privileged container being requested but privileged containers are not enabled on "
             "this cluster"),
        "TARN-3155", SPEC, ["privileged-containers.allowed", "privileged-containers.enabled"]),
    "privileged, acl": (
        java("Cannot launch privileged container. Submitting user (ann) fails ACL check."),
        "TARN-3155", SPEC, ["ann", "privileged-containers.acl"]),
    "privileged, cfg": (
        native("Privileged containers are disabled",
               refused(63, "Privileged containers are disabled")),
        "TARN-3155", SPEC, ["docker.privileged-containers.enabled=true"]),
    "privileged, entry point": (
        native("Privileged containers are disabled for non-entry-point mode"),
        "TARN-3155", SPEC, ["entry point", "Remove runtime.options.docker.privileged"]),
    "privileged, user": (
        native("Privileged containers are disabled for user: nobody"),
        "TARN-3155", SPEC, ["nobody", "group docker"]),
    "uid": (
        java("uid: 0 below threshold: 1"), "TARN-3155", SPEC, ["uid 0", "userremapping-uid"]),
    "mount ro": (
        native("Configuration does not allow docker mount '/etc:/x:ro', realpath=/etc",
               refused(50, "Invalid read-only mount")),
        "TARN-3154", SPEC, ["'/etc:/x:ro'", "Add /etc to docker.allowed.ro-mounts"]),
    "mount rw": (
        native("Configuration does not allow docker mount '/etc:/x:rw', realpath=/etc",
               refused(51, "Invalid docker read-write mount")),
        "TARN-3154", SPEC, ["'/etc:/x:rw'", "Add /etc to docker.allowed.rw-mounts"]),
    "mount missing": (
        native("Could not determine real path of mount '/mnt/models'",
               "Invalid docker mount '/mnt/models:/models:ro', realpath=/mnt/models",
               refused(49, "Invalid mount")),
        "TARN-3154", NODE, ["/mnt/models", "models.repository"]),
    "mount allowed and missing": (
        native("Could not determine real path of mount '/old'",
               "Unable to find permitted docker mounts on disk", refused(52, "Mount access error")),
        "TARN-3154", NODE, ["docker.allowed.ro-mounts"]),
    "untrusted": (
        native("image: evil/x:1 is not trusted.", "Disable mount volume for untrusted image",
               "Unable to find image 'evil/x:1' locally",
               "docker: Error response from daemon: pull access denied for evil/x", code=7),
        "TARN-3152", SPEC, ["'evil/x:1'", "'evil'", "docker.trusted.registries"]),
    "untrusted, no registry": (
        native("image: triton:1 is not trusted.", code=127), "TARN-3152", SPEC, ["'library'"]),
    "image, no registry reached": (
        native("Unable to find image 'tarn/none:1' locally",
               'docker: Error response from daemon: Get "https://registry.example.org/v2/": dial '
               "tcp: lookup registry.example.org: no such host.", code=7),
        "TARN-3151", NODE, ["'tarn/none:1'", "no such host", "docker load"]),
    "image, denied": (
        native("Unable to find image 'tarn/none:1' locally",
               "docker: Error response from daemon: pull access denied for tarn/none, repository "
               "does not exist or may require 'docker login': denied: requested access to the "
               "resource is denied.", code=7),
        "TARN-3151", SPEC, ["pull access denied", "docker login"]),
    "image, unknown tag": (
        native("Unable to find image 'a/b:9' locally",
               "docker: Error response from daemon: manifest for a/b:9 not found: manifest "
               "unknown: manifest unknown.", code=7),
        "TARN-3151", SPEC, ["manifest for a/b:9", "push"]),
    "image, too many": (
        native("Unable to find image 'a/b:9' locally",
               "docker: Error response from daemon: toomanyrequests: You have reached your pull "
               "rate limit.", code=7),
        "TARN-3151", NOBODY, ["for now"]),
    "image, disk": (
        native("Unable to find image 'a/b:9' locally",
               "docker: failed to register layer: write /x: no space left on device.", code=7),
        "TARN-3157", NODE, ["disk", "docker system df"]),
    "dockerd down": (
        native("docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the "
               "docker daemon running?.", code=7),
        "TARN-3157", NODE, ["systemctl start docker"]),
    "docker switched off": (
        native("Feature disabled: docker", code=32), "TARN-3157", NODE, ["module.enabled=true"]),
    "no docker at all": (
        ERROR + "/models is not there: this container was not started by Docker\n",
        "TARN-3157", NODE, ["LinuxContainerExecutor", "allowed-runtimes"]),
    "an image's own /models": (
        ERROR + "/models of the image cannot be written by the user of this container\n",
        "TARN-3158", SPEC, ["chmod 1777"]),
    "no bash": (
        native("docker: Error response from daemon: failed to create shim task: OCI runtime create "
               'failed: runc create failed: unable to start container process: exec: "bash": '
               "executable file not found in $PATH: unknown.", code=7),
        "TARN-3158", SPEC, ["'bash'"]),
    "no tritonserver": (
        native("Docker container exit code was not zero: 127", code=127)
        + "Last 4096 bytes of triton.stderr :\n.tarn/run: 66: exec: tritonserver: not found\n",
        "TARN-3158", SPEC, ["'tritonserver'", "PATH"]),
    "no tritonserver, bash": (
        native("Docker container exit code was not zero: 127", code=127)
        + ".tarn/run: line 66: exec: tritonserver: not found\n",
        "TARN-3158", SPEC, ["'tritonserver'"]),
    "port mapped already": (
        native(PORTS + "Bind for 0.0.0.0:8000 failed: port is already allocated.",
               code=7),
        "TARN-3103", NODE, ["already in use", "port is already allocated"]),
    "port held": (
        native(PORTS + "Error starting userland proxy: listen tcp4 0.0.0.0:8000: bind: "
               "address already in use.", code=7),
        "TARN-3103", NODE, ["already in use"]),
    "shared memory": (
        native("Docker container exit code was not zero: 1", code=1)
        + "Failed to initialize Python stub: Unable to initialize shared memory key "
        "'triton_python_backend_shm_region_1' to requested size (1048576 bytes). If you are "
        "running Triton inside docker, use '--shm-size' flag to control the shared memory region "
        "size. Error: No space left on device\n",
        "TARN-3159", NOBODY, ["instance.resources.memory", "half"]),
    "unknown, native": (
        native(refused(99, "Something new")), "TARN-3157", NOBODY, ["Something new"]),
    "unknown, docker": (
        native("docker: Error response from daemon: the moon is full.", code=7),
        "TARN-3157", NOBODY, ["the moon is full"]),
    "unknown, java": (
        java("Hostname 'x' doesn't match OCI-compliant hostname pattern"),
        "TARN-3157", NOBODY, ["OCI-compliant"]),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SAID))
def test_each_failure_is_said_with_its_fix(name):
    """What happened, the property or line that mends it, and whether trying again can help."""
    said, code, blame, words = SAID[name]
    found = docker_failure(said)
    assert found is not None
    assert (found.code, found.permanent, found.node_fault) == (code, blame == SPEC, blame == NODE)
    for each in words:
        assert each in str(found)
    assert f"tarn help {code}" in str(found)
    assert "{" not in str(found)


@pytest.mark.parametrize("name", sorted(SAID))
def test_it_reaches_the_exit_of_an_instance(name):
    """`tarn why` and the end of `tarn up` show the reason of an exit."""
    said, code, blame, words = SAID[name]
    status = explain(Completed("c", 7, said), asked=False)
    assert f"tarn help {code}" in status.reason
    assert (status.permanent, status.node_fault) == (blame == SPEC, blame == NODE)
    assert all(each in status.reason for each in words)
    assert explain(Completed("c", 7, said), asked=True).expected


def test_every_row_is_shown_by_a_failure():
    """A pattern that nothing shows may match nothing."""
    rare = {"Invalid mount : ", "Invalid port mappings", "parent directory", "capability",
            "Requested runtime not allowed", "Invalid docker network'", "launch_container",
            }  # fmt: skip
    texts = [said for said, *_ in SAID.values()]
    unseen = [r.pattern.pattern for r in ROWS if not any(r.pattern.search(t) for t in texts)]
    assert all(any(word in pattern for word in rare) for pattern in unseen), unseen


def test_every_code_is_in_the_table():
    """`tarn help CODE` knows whatever is said."""
    assert {row.code for row in ROWS} <= set(CODES)


def test_a_mapped_port_that_is_taken_is_known_as_such():
    """So that the next instance on that node listens three further on."""
    status = explain(Completed("c", 7, SAID["port mapped already"][0]), asked=False)
    assert "already in use" in status.last_error


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (1, native("Docker container exit code was not zero: 1", code=1)
            + "error: creating server: Internal - failed to load all models\n"),
        (1, native("Unable to find image 'a/b:1' locally", "1: Pulling from a/b",
                   "Status: Downloaded newer image for a/b:1",
                   "Docker container exit code was not zero: 1", code=1)),
        (127, BEGIN + "Exit code: 127\nException message: bash: exec: tritonserver: not found\n"),
        (0, ""),
    ],
)  # fmt: skip
def test_what_is_not_docker_s_is_left_to_others(code, said):
    """An end of Triton's own; an image that was fetched in good order; a process of the node."""
    assert docker_failure(said) is None
    assert "TARN-315" not in explain(Completed("c", code, said), asked=False).reason


def test_memory_is_yarn_s_word_whatever_docker_says():
    """A code of YARN's own comes first."""
    status = explain(Completed("c", -104, SAID["shared memory"][0]), asked=False)
    assert status.reason.startswith("out of memory: ")


def test_no_password_of_a_registry_is_repeated():
    """Docker repeats the address that it was given."""
    said = native("Unable to find image 'x' locally",
                  "docker: Error response from daemon: Get https://ann:hunter2@reg/v2/: EOF.",
                  code=7)  # fmt: skip
    assert "hunter2" not in str(docker_failure(said))


@given(st.text(max_size=200), st.sampled_from(sorted(SAID)))
def test_whatever_a_node_says_is_borne(noise, name):
    """Text around it changes nothing of what is raised, and long text is cut."""
    assert docker_failure(noise + SAID[name][0] + noise) is not None
    found = docker_failure(java("x" * 5000))
    assert found is not None
    assert len(str(found)) < 1000
