"""Every option and environment name of the Java TARN, and the effect that each has here."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from tarn import config
from tarn.errors import ConfigErrors

REPOSITORY = {"models": {"repository": "hdfs:///models"}, "name": "fleet"}


@attrs.frozen
class Row:
    """One row of the table: names, a value as it is typed, and the spec values it leads to."""

    short: str | None
    long: str | None
    env: str | None
    typed: Any
    effect: dict[str, object] = attrs.field(hash=False)
    with_: dict[str, object] = attrs.field(factory=dict, hash=False)
    """Other options without which this one has nothing to add to."""


ZK = {"zk-ensemble": "zk1:2181"}
RANGER = {"ranger-service": "triton_prod"}
TLS = {"tls-enabled": True, "tls-keystore": "/etc/k.jks"}
DOCKER = "runtime.options.docker."

WORKS = [
    Row("m", "model-repository", "MODEL_REPOSITORY", "hdfs:///user/models",
        {"models.repository": "hdfs:///user/models"}),
    Row("i", "image", "TRITON_IMAGE", "registry/triton:1", {"triton.image": "registry/triton:1"}),
    Row("p", "port", "TRITON_PORT", "9000", {"triton.http_port": 9000}),
    Row("gp", "grpc-port", "GRPC_PORT", "9001", {"triton.grpc_port": 9001}),
    Row("mp", "metrics-port", "METRICS_PORT", "9002", {"triton.metrics_port": 9002}),
    Row("ap", "am-port", "AM_PORT", "8888", {"api.port": 8888}),
    Row("a", "address", "BIND_ADDRESS", "10.0.0.1", {"triton.bind": "10.0.0.1"}),
    Row("t", "token", "TARN_TOKEN", "sesame", {"api.token": "auto"}),
    Row("tp", "tensor-parallelism", "TENSOR_PARALLELISM", "4",
        {"instance.parallelism.tensor": 4, "instance.resources.gpus": 4}),
    Row("pp", "pipeline-parallelism", "PIPELINE_PARALLELISM", "2",
        {"instance.parallelism.pipeline": 2, "instance.resources.gpus": 2}),
    Row("s", "secrets", "SECRETS_PATH", "hdfs:///user/secrets/hf.jceks",
        {"secrets[0].use": "jceks", "secrets[0].options.path": "hdfs:///user/secrets/hf.jceks"}),
    Row("pt", "placement-tag", "PLACEMENT_TAG", "a100", {"placement.tag": "a100"}),
    Row("dn", "docker-network", "DOCKER_NETWORK", "bridge",
        {"runtime.use": "yarn", DOCKER + "network": "bridge"}),
    Row("dp", "docker-privileged", "DOCKER_PRIVILEGED", True, {DOCKER + "privileged": True}),
    Row("ddr", "docker-delayed-removal", "DOCKER_DELAYED_REMOVAL", True,
        {DOCKER + "delayed_removal": True}),
    Row("dm", "docker-mounts", "DOCKER_MOUNTS", "/a:/b:ro, /c:/d",
        {DOCKER + "mounts[0]": "/a:/b:ro", DOCKER + "mounts[1]": "/c:/d"}),
    Row("dports", "docker-ports", "DOCKER_PORTS", "80:8000,81:8001",
        {DOCKER + "ports[0]": "80:8000", DOCKER + "ports[1]": "81:8001"}),
    Row("ze", "zk-ensemble", "ZK_ENSEMBLE", "zk1:2181,zk2:2181",
        {"discovery[0].use": "zookeeper", "discovery[0].options.ensemble": "zk1:2181,zk2:2181",
         "discovery[0].required": True}),
    Row("zp", "zk-path", "ZK_PATH", "/t", {"discovery[0].options.path": "/t"}, ZK),
    Row(None, "zk-required", "ZK_REQUIRED", True, {"discovery[0].required": True}, ZK),
    Row("rs", "ranger-service", "RANGER_SERVICE", "triton_prod",
        {"authorizer.use": "ranger", "authorizer.options.service": "triton_prod"}),
    Row("ra", "ranger-app-id", "RANGER_APP_ID", "x", {"authorizer.options.app_id": "x"}, RANGER),
    Row("raudit", "ranger-audit", "RANGER_AUDIT", True,
        {"authorizer.options.audit": True}, RANGER),
    Row(None, "ranger-strict", "RANGER_STRICT", True,
        {"authorizer.options.strict": True}, RANGER),
    Row("e", "env", None, ["A=b c $(id)", "B=x=y"],
        {"triton.env.A": "b c $(id)", "triton.env.B": "x=y"}),
    Row("su", "scale-up", "SCALE_UP_THRESHOLD", "0.8",
        {"scaling.use": "threshold", "scaling.options.scale_up": 0.8}),
    Row("sd", "scale-down", "SCALE_DOWN_THRESHOLD", "0.1",
        {"scaling.use": "threshold", "scaling.options.scale_down": 0.1}),
    Row("min", "min-instances", "MIN_CONTAINERS", "2", {"replicas.min": 2}),
    Row("max", "max-instances", "MAX_CONTAINERS", "7", {"replicas.max": 7}),
    Row("c", "cooldown", "SCALE_COOLDOWN_MS", "120000", {"scaling.cooldown": "2m"}),
    Row(None, "scale-mode", "SCALE_MODE", "queue_depth",
        {"scaling.use": "threshold", "scaling.options.mode": "queue_depth"}),
    Row(None, "queue-capacity-per-container", "QUEUE_CAPACITY_PER_CONTAINER", "32",
        {"scaling.options.queue_capacity": 32}),
    Row(None, "monitor-interval-ms", "MONITOR_INTERVAL_MS", "15000",
        {"scaling.interval": "15s"}),
    Row(None, "drain-timeout-ms", "DRAIN_TIMEOUT_MS", "1500", {"drain.timeout": "1500ms"}),
    Row(None, "warmup-timeout-ms", "WARMUP_TIMEOUT_MS", "120000",
        {"instance.start_timeout": "2m"}),
    Row(None, "warmup-poll-interval-ms", "WARMUP_POLL_INTERVAL_MS", "100",
        {"scaling.interval": "250ms"}),
    Row(None, "tls-enabled", "TLS_ENABLED", True,
        {"api.tls.keystore": "/etc/k.jks"}, {"tls-keystore": "/etc/k.jks"}),
    Row(None, "tls-keystore", "TLS_KEYSTORE_PATH", "/etc/o.jks",
        {"api.tls.keystore": "/etc/o.jks"}, TLS),
    Row(None, "tls-keystore-type", "TLS_KEYSTORE_TYPE", "PKCS12",
        {"api.tls.keystore_type": "PKCS12"}, TLS),
    Row(None, "tls-keystore-password-alias", "TLS_KEYSTORE_PASSWORD_ALIAS", "my.alias",
        {"api.tls.keystore_password_alias": "my.alias"}, TLS),
    Row(None, "accelerator-type", "ACCELERATOR_TYPE", "amd_gpu",
        {"instance.resources.gpu_resource": "amd.com/gpu", "instance.resources.gpus": 1}),
    Row(None, "gpu-slice-size", "GPU_SLICE_SIZE", "1g.10gb",
        {"instance.resources.gpu_resource": "nvidia.com/mig-1g.10gb",
         "instance.resources.gpus": 1}),
    Row(None, None, "CONTAINER_MEMORY", "8192", {"instance.resources.memory": "8GiB"}),
    Row(None, None, "CONTAINER_VCORES", "6", {"instance.resources.vcores": 6}),
]  # fmt: skip
NOTED = [
    Row("j", "jar", None, "tarn.jar", {}),
    Row("cp", "client-port", "CLIENT_PORT", "8889", {}),
]
REFUSED = [
    Row(None, "openai-proxy-enabled", "OPENAI_PROXY_ENABLED", True, {}),
    Row(None, "openai-proxy-port", "OPENAI_PROXY_PORT", "9000", {}),
    Row(None, "quotas", "QUOTAS_PATH", "hdfs:///q.json", {}),
    Row(None, "shadow-endpoint", "SHADOW_ENDPOINT", "http://other:8000", {}),
    Row(None, "shadow-sample-rate", "SHADOW_SAMPLE_RATE", "0.1", {}),
]
JAAS = Row(None, "zk-jaas", "ZK_JAAS", "/j", {}, ZK)
LATER = [Row(None, "otel-endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317", {})]
ALL = [*WORKS, *NOTED, *REFUSED, JAAS, *LATER]


def id_of(row: Row) -> str:
    return row.long or row.env or ""


def load(aliases: dict[str, object], environ: dict[str, str], **more: Any) -> config.LoadedSpec:
    return config.load(REPOSITORY, aliases=aliases, environ=environ, **more)


def values(loaded: config.LoadedSpec) -> dict[str, object]:
    """Return dotted path to value of the whole spec, as plain data."""
    found: dict[str, object] = {}

    def walk(plain: object, path: str) -> None:
        if isinstance(plain, dict):
            for key, item in plain.items():
                walk(item, f"{path}.{key}" if path else key)
        elif isinstance(plain, list):
            for index, item in enumerate(plain):
                walk(item, f"{path}[{index}]")
        else:
            found[path] = plain

    walk(config.dump(loaded.spec), "")
    return found


def as_environment(row: Row) -> dict[str, str]:
    assert row.env is not None
    return {row.env: "true" if row.typed is True else str(row.typed)}


def test_the_table_has_exactly_the_options_of_the_contract() -> None:
    """Short name, long name and environment name of each are as the Java TARN has them."""
    ours = {(alias.short, alias.long, alias.env) for alias in config.ALIASES}
    assert ours == {(row.short, row.long, row.env) for row in ALL}
    assert len(config.ALIASES) == len(ALL)


@pytest.mark.parametrize("row", [r for r in WORKS if r.long], ids=id_of)
def test_an_option_has_its_effect_in_the_spec(row: Row) -> None:
    """The long name as an argument sets the spec values of the table."""
    loaded = load({**row.with_, row.long: row.typed}, {})
    assert row.effect.items() <= values(loaded).items()


@pytest.mark.parametrize("row", [r for r in WORKS if r.env], ids=id_of)
def test_an_environment_name_has_the_same_effect(row: Row) -> None:
    """The environment twin, as text, sets the same spec values."""
    environment = as_environment(row)
    with_ = dict(row.with_)
    if row.long and row.long.startswith("docker-"):
        loaded = load(with_, environment)
        assert not row.effect.items() <= values(loaded).items()
        assert "has no effect: runtime.use is not 'yarn'" in loaded.notes[0]
        source = {**REPOSITORY, "runtime": {"use": "yarn"}}
        loaded = config.load(source, environ=environment)
    else:
        with_.pop(row.long or "", None)
        loaded = load(with_, environment)
    assert row.effect.items() <= values(loaded).items()


@pytest.mark.parametrize("row", [r for r in WORKS if r.long], ids=id_of)
def test_the_origin_of_every_effect_names_the_option(row: Row) -> None:
    """`tarn config explain` shows which option set a value."""
    loaded = load({**row.with_, row.long: row.typed}, {})
    others = {f"argument --{name}" for name in row.with_}
    for path in row.effect:
        assert loaded.origins[path] in {f"argument --{row.long}", *others}


@pytest.mark.parametrize("row", [r for r in WORKS if r.long and r.env], ids=id_of)
def test_an_argument_wins_over_the_environment(row: Row) -> None:
    """Argument over environment: the environment's value is not even looked at."""
    loaded = load({**row.with_, row.long: row.typed}, {row.env or "": "of no use, never read"})
    assert row.effect.items() <= values(loaded).items()


@pytest.mark.parametrize("row", NOTED, ids=id_of)
def test_an_option_without_a_purpose_is_accepted_with_a_note(row: Row) -> None:
    """Only --jar and --client-port; nothing else changes."""
    loaded = load({row.long or "": row.typed}, {})
    assert loaded.spec == load({}, {}).spec
    assert loaded.notes[0].startswith(f"argument --{row.long}: accepted, but has no effect: ")
    if row.env:
        assert load({}, as_environment(row)).notes[0].startswith(f"environment {row.env}: ")


@pytest.mark.parametrize("row", REFUSED, ids=id_of)
def test_proxy_quotas_and_shadow_are_refused_loudly(row: Row) -> None:
    """As argument and as environment, with the code for what this version lacks."""
    for aliases, environ in (({row.long or "": row.typed}, {}), ({}, as_environment(row))):
        with pytest.raises(ConfigErrors, match="not in this version") as caught:
            load(aliases, environ)
        assert caught.value.code == "TARN-2004"
        assert caught.value.exit_code == 2


def test_proxy_and_shadow_that_are_off_ask_for_nothing() -> None:
    """What is switched off is what is the case."""
    environ = {"OPENAI_PROXY_ENABLED": "false", "SHADOW_SAMPLE_RATE": "0.0"}
    assert load({}, environ).notes == ()


def test_the_traces_endpoint_names_its_part() -> None:
    """As an argument it is refused; in the environment, where others read it, it is noted."""
    with pytest.raises(ConfigErrors, match="comes with the part OBSERVE"):
        load({"otel-endpoint": "http://c:4317"}, {})
    loaded = load({}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"})
    assert loaded.notes == (
        "environment OTEL_EXPORTER_OTLP_ENDPOINT: not used: comes with the part OBSERVE",
    )


def test_a_path_of_secrets_is_one_on_hdfs() -> None:
    """The Java TARN knew no other file system; in a tarn.yaml a path is one of this machine."""
    loaded = load({"secrets": "/user/secrets/hf.jceks"}, {})
    (store,) = loaded.spec.secrets
    assert store.options == {"path": "hdfs:///user/secrets/hf.jceks"}


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"scale-mode": "gpu-util"}, "Did you mean 'gpu_util'?"),
        ({"scale-up": "1.5"}, "needs more than 0 and at most 1, not 1.5"),
        ({"scale-up": "0.2", "scale-down": "0.3"}, "0.3 is not below scale-up = 0.2"),
        ({"scale-down": "-0.1"}, "needs at least 0 and less than 1"),
        ({"queue-capacity-per-container": "0"}, "needs at least 1, not 0"),
        ({"port": "70000"}, "triton.http_port = 70000: must be at most 65535"),
        ({"port": "8k"}, "needs a whole number, not '8k'"),
        ({"cooldown": "60s"}, "needs a whole number of milliseconds, without a unit, not '60s'"),
        ({"min-instances": "12"}, "replicas.max = 10 is below replicas.min = 12"),
        ({"gpu-slice-size": "half"}, "needs a MIG profile such as 1g.10gb, not 'half'"),
        ({"gpu-slice-size": "0.5"}, "a fraction of a GPU is not in this version"),
        ({"accelerator-type": "nvdia_gpu"}, "Did you mean 'nvidia_gpu'?"),
        ({"tls-enabled": True}, "TLS needs a keystore"),
        ({"env": ["NOVALUE"]}, "argument --env: needs NAME=VALUE"),
        ({"token": ""}, "needs a text that is not empty"),
        ({"min-instance": "1"}, "no such option. Did you mean 'min-instances'?"),
    ],
)
def test_a_bad_value_is_refused_in_words(typed: dict[str, object], said: str) -> None:
    """Nothing is taken for something else in silence, as unknown words once were."""
    with pytest.raises(ConfigErrors) as caught:
        load(typed, {})
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["tp", "pp"])
def test_the_short_names_tp_and_pp_work_with_two_dashes(name: str) -> None:
    """The README of the Java TARN writes --tp and --pp."""
    (alias,) = [alias for alias in config.ALIASES if alias.short == name]
    assert f"--{name}" in alias.declarations
    assert load({name: "2"}, {}).spec.instance.parallelism.ranks == 2


def test_zookeeper_is_required_unless_the_environment_says_no() -> None:
    """Whoever names an ensemble relies on it."""
    assert load({"zk-ensemble": "a:1"}, {}).spec.discovery[0].required is True
    loaded = load({"zk-ensemble": "a:1"}, {"ZK_REQUIRED": "false"})
    assert loaded.spec.discovery[0].required is False


def test_a_login_by_jaas_is_refused_rather_than_left_out() -> None:
    """With the place for the login; without an ensemble it asks for nothing."""
    for aliases, environ in (({"zk-jaas": "/j"}, {}), ({}, {"ZK_JAAS": "/j"})):
        with pytest.raises(
            ConfigErrors, match=r"not read a JAAS file.*digest: file:PATH"
        ) as caught:
            load({**ZK, **aliases}, environ)
        assert caught.value.code == "TARN-2004"
        assert "no effect without --zk-ensemble" in load(aliases, environ).notes[0]


def test_readiness_is_looked_at_as_often_as_either_option_asks() -> None:
    """One interval serves both: the shorter one, and the longer one is told."""
    both = {"monitor-interval-ms": "15000", "warmup-poll-interval-ms": "2000"}
    loaded = load(both, {})
    assert loaded.spec.scaling.interval_s == 2.0
    assert "scaling.interval = 2s, not 15s" in loaded.notes[0]
    both["monitor-interval-ms"] = "1000"
    assert load(both, {}).spec.scaling.interval_s == 1.0
    assert load(both, {}).notes == ()


def test_ranks_times_ranks_gives_the_gpus() -> None:
    """max(1, tp*pp) accelerators are asked for, unless the file says how many."""
    assert load({"tp": "2", "pp": "3"}, {}).spec.instance.resources.gpus == 6
    written = {**REPOSITORY, "instance": {"resources": {"gpus": 0}}}
    loaded = config.load(written, aliases={"tp": "2"}, environ={})
    assert loaded.spec.instance.resources.gpus == 0


def test_cpu_only_asks_for_no_accelerator() -> None:
    """Whatever the parallelism."""
    loaded = load({"accelerator-type": "cpu-only", "tp": "2"}, {})
    assert loaded.spec.instance.resources.gpus == 0


def test_the_token_is_nowhere_but_in_its_masked_place() -> None:
    """Not in the spec, not in notes, origins, or any repr."""
    for aliases, environ in (({"token": "sesame"}, {}), ({}, {"TARN_TOKEN": "sesame"})):
        loaded = load(aliases, environ)
        assert loaded.api_token is not None
        assert loaded.api_token.reveal() == "sesame"
        assert "sesame" not in repr(loaded)
        assert "sesame" not in str(loaded.api_token)
    assert "arguments" in load({"token": "sesame"}, {}).notes[0]


@pytest.mark.parametrize(
    ("aliases", "environ"),
    [({"env": ["TRITON_LOG_VERBOSE=1"]}, {}), ({}, {"TRITON_LOG_VERBOSE": "1"})],
)
def test_triton_log_verbose_becomes_an_option_of_triton(
    aliases: dict[str, object], environ: dict[str, str]
) -> None:
    """No Triton reads the variable of the README's example, so it is turned into --log-verbose."""
    loaded = load(aliases, environ)
    assert loaded.spec.triton.args == {"log-verbose": 1}
    assert loaded.spec.triton.env == {}
    assert "became triton.args.log-verbose = 1" in loaded.notes[0]


def test_companions_without_their_main_option_are_noted() -> None:
    """`RANGER_APP_ID` alone authorizes nothing, and says so."""
    loaded = load({"zk-path": "/x"}, {"RANGER_APP_ID": "x", "TLS_KEYSTORE_PATH": "/k"})
    assert sorted(loaded.notes) == [
        "argument --zk-path: has no effect without --zk-ensemble",
        "environment RANGER_APP_ID: has no effect without --ranger-service",
        "environment TLS_KEYSTORE_PATH: has no effect without --tls-enabled",
    ]


@pytest.mark.parametrize("option", ["min-instances", "max-instances", "cooldown"])
def test_options_of_scaling_scale_as_the_java_tarn_did(option: str) -> None:
    """It always scaled by threshold; a policy that is written wins."""
    loaded = load({option: 1}, {})
    assert loaded.spec.scaling.use == "threshold"
    (note,) = loaded.notes
    assert note == (
        f"argument --{option}: no scaling.use is written: 'threshold', as the Java TARN scaled"
    )
    written = {**REPOSITORY, "scaling": {"use": "fixed"}}
    loaded = config.load(written, aliases={option: 1}, environ={})
    assert loaded.spec.scaling.use == "fixed"
    assert loaded.notes == ()


def test_the_readme_example_loads_whole(tmp_path: Path) -> None:
    """The long command line of the Java TARN's README, option by option."""
    aliases = {
        "model-repository": "hdfs:///user/models", "port": "8000", "metrics-port": "8002",
        "image": "nvcr.io/nvidia/tritonserver:24.09-py3", "am-port": "8888",
        "address": "0.0.0.0", "token": "my-secret-token", "tp": "2", "pp": "1",
        "secrets": "hdfs:///user/secrets/hf.jceks", "placement-tag": "nvidia",
        "scale-up": "0.8", "scale-down": "0.2", "min-instances": "2", "max-instances": "8",
        "cooldown": "120000", "jar": "target/tarn.jar", "env": ("TRITON_LOG_VERBOSE=1",),
    }  # fmt: skip
    spec = config.load(None, arguments={"name": "f"}, aliases=aliases, environ={}).spec
    assert (spec.replicas.min, spec.replicas.max, spec.scaling.cooldown_s) == (2, 8, 120.0)
    assert spec.scaling.options == {"scale_up": 0.8, "scale_down": 0.2}
