"""The spec's choices held against what plugins offer; explaining, describing, masking."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from tarn import config, plugins
from tarn.domain import Choice
from tarn.errors import ConfigErrors
from tarn.hookspecs import Factory, RuntimeFactory, hookimpl
from tarn.interfaces import RuntimeCapabilities


@attrs.frozen
class Nothing:
    """No settings."""


@attrs.frozen
class Login:
    """Settings within settings."""

    user: str
    keytab: Path


@attrs.frozen
class Ensemble:
    """Settings of a discovery."""

    ensemble: str
    """host:port, separated by commas"""
    session_s: float = 10.0
    """How long the session lives without a word."""
    keytab: Path | None = None
    login: Login | None = None


class Offering:
    """Offers one of each, under the names of the defaults."""

    @hookimpl
    def tarn_runtimes(self) -> Mapping[str, Any]:
        return {
            "local": runtime(RuntimeCapabilities(gpus=True)),
            "poor": runtime(RuntimeCapabilities()),
            "rich": runtime(RuntimeCapabilities(placement=True, gpus=True)),
        }

    @hookimpl
    def tarn_scaling_policies(self) -> Mapping[str, Any]:
        return {"fixed": factory(Nothing)}

    @hookimpl
    def tarn_authorizers(self) -> Mapping[str, Any]:
        return {"none": factory(Nothing)}

    @hookimpl
    def tarn_affinities(self) -> Mapping[str, Any]:
        return {"auto": factory(Nothing)}

    @hookimpl
    def tarn_discoveries(self) -> Mapping[str, Any]:
        return {"registry": factory(Ensemble), "none": factory(Nothing)}


def factory(settings: type[Any]) -> Factory[Any]:
    return Factory(settings, lambda made, _context: made, "x")


def runtime(capabilities: RuntimeCapabilities) -> RuntimeFactory:
    def never(*_arguments: object) -> Any:
        raise AssertionError("only a client or a master makes this")

    return RuntimeFactory(Nothing, never, never, never, never, capabilities, "x")


@pytest.fixture(scope="module")
def offered() -> plugins.Plugins:
    """Return plugins as they are loaded for a command."""
    return plugins.load([Offering()], points=())


def messages(tmp_path: Path, text: str, offered: plugins.Plugins) -> list[str]:
    (tmp_path / "tarn.yaml").write_text(f"name: a\nmodels: /m\n{text}")
    with pytest.raises(ConfigErrors) as caught:
        config.load(tmp_path, environ={}, plugins=offered)
    return [str(error) for error in caught.value.errors]


def test_a_spec_of_offered_providers_loads(offered: plugins.Plugins, tmp_path: Path) -> None:
    """Options stay as they were written, but for the paths among them."""
    (tmp_path / "tarn.yaml").write_text(
        "name: a\nmodels: /m\ndiscovery:\n"
        "  - use: registry\n"
        "    options:\n"
        "      {ensemble: 'z:1', session: 5s, keytab: svc.keytab, login: {user: a, keytab: b}}\n"
    )
    spec = config.load(tmp_path, environ={}, plugins=offered).spec
    assert spec.discovery[0].options == {
        "ensemble": "z:1",
        "session": "5s",
        "keytab": str(tmp_path / "svc.keytab"),
        "login": {"user": "a", "keytab": str(tmp_path / "b")},
    }
    assert spec.runtime == Choice("local")


def test_a_misspelt_provider_gets_the_list_and_a_guess(
    offered: plugins.Plugins, tmp_path: Path
) -> None:
    """The message of the house, with file and line."""
    assert messages(tmp_path, "discovery:\n  - use: registri\n", offered) == [
        (
            "tarn.yaml:4: discovery[0].use = 'registri': no plugin offers it "
            "(offered: none, registry). Did you mean 'registry'?"
        )
    ]


def test_a_missing_provider_ends_with_its_own_exit_code(
    offered: plugins.Plugins, tmp_path: Path
) -> None:
    """6 when it is all that is wrong, 2 when the configuration is wrong too."""
    for text, code in (("runtime: nomad\n", 6), ("runtime: nomad\nx: 1\n", 2)):
        (tmp_path / "tarn.yaml").write_text(f"name: a\nmodels: /m\n{text}")
        with pytest.raises(ConfigErrors) as caught:
            config.load(tmp_path, environ={}, plugins=offered)
        assert caught.value.exit_code == code


def test_options_are_checked_by_the_providers_settings(
    offered: plugins.Plugins, tmp_path: Path
) -> None:
    """Together with everything else that is wrong, each with its line."""
    text = (
        "drain: {timeout: 5}\nruntime: {use: local, options: {queue: gpu}}\ndiscovery:\n"
        "  - use: registry\n    options:\n      sesion: 3s\n"
    )
    assert sorted(messages(tmp_path, text, offered)) == [
        (
            "tarn.yaml:3: drain.timeout = 5: a duration needs its unit. "
            "Write 5s, or for example 10m, 1.5s or 250ms"
        ),
        "tarn.yaml:4: runtime.options.queue: unknown key. Known keys: nothing",
        "tarn.yaml:7: discovery[0].options.ensemble is missing; it must be given",
        "tarn.yaml:8: discovery[0].options.sesion: unknown key. Did you mean 'session'?",
    ]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("runtime: {use: skein}", "SKEIN"),
        ("farm: {name: alice}", "FARMS"),
    ],
)
def test_what_nothing_here_obeys_names_its_part(
    offered: plugins.Plugins, tmp_path: Path, text: str, part: str
) -> None:
    """A spec that is silently not obeyed would be a lie; https most of all."""
    (message,) = messages(tmp_path, text, offered)
    assert message.endswith(
        (f"not in this version: comes with the part {part}",
         f"not in this version: comes with the part {part}. Remove it")
    )  # fmt: skip


def test_knox_is_no_discovery_and_the_refusal_says_what_is_meant(
    offered: plugins.Plugins, tmp_path: Path
) -> None:
    """Knox asks HAProxy or ZooKeeper, so a master has nothing to tell it."""
    (message,) = messages(tmp_path, "discovery: [{use: knox}]", offered)
    assert "through HAProxy or ZooKeeper: see `tarn lb knox config`" in message


def test_explain_gives_value_and_origin_of_every_leaf(tmp_path: Path) -> None:
    """As it would be written, with secrets masked."""
    (tmp_path / "tarn.yaml").write_text(
        "name: a\nmodels: 's3://user:pw@host/m'\ndrain: {timeout: 90s}\n"
        "triton: {env: {HF_TOKEN: hunter2, N: '4'}}\n"
    )
    explained = config.explain(config.load(tmp_path, environ={"MIN_CONTAINERS": "2"}))
    assert ("drain.timeout", "90s", "tarn.yaml:3") in explained
    assert ("replicas.min", "2", "environment MIN_CONTAINERS") in explained
    assert ("triton.binary", "null", "default") in explained
    assert ("triton.env.HF_TOKEN", "***", "tarn.yaml:4") in explained
    assert ("triton.env.N", "4", "tarn.yaml:4") in explained
    assert ("models.repository", "s3://***@host/m", "tarn.yaml:2") in explained


def test_redact_masks_secrets_wherever_users_name_them() -> None:
    """The contract's words, in env and options; URLs and assignments everywhere."""
    plain = {
        "authorizer": {"use": "none", "options": {"password": "x", "deep": {"auth": ["y", 1]}}},
        "triton": {
            "env": {"MY_PASSPHRASE": "p", "Aws_Secret_X": "s", "CREDENTIALS": "c", "PLAIN": "v"},
            "args": {"cache-config": "redis,host=h,password=pw"},
        },
        "api": {"token": "auto"},
    }
    assert config.redact(plain) == {
        "authorizer": {
            "use": "none",
            "options": {"password": "***", "deep": {"auth": ["***", "***"]}},
        },
        "triton": {
            "env": {
                "MY_PASSPHRASE": "***", "Aws_Secret_X": "***", "CREDENTIALS": "***", "PLAIN": "v"
            },
            "args": {"cache-config": "redis,host=h,password=***"},
        },
        "api": {"token": "auto"},
    }  # fmt: skip


def test_dump_writes_units_and_everything() -> None:
    """So that the file in a cluster's folder says all, and defaults may change later."""
    plain = config.dump(config.load({"name": "a", "models": "/m"}, environ={}).spec)
    assert plain["drain"] == {"timeout": "10m", "quiesce": "2s"}
    assert plain["instance"]["resources"]["memory"] == "4GiB"
    assert plain["farm"] is None
    assert yaml.safe_load(yaml.safe_dump(plain)) == plain


def test_the_schema_describes_keys_units_and_providers(offered: plugins.Plugins) -> None:
    """For an editor: the docstrings of the fields, patterns of units, options by `use`."""
    schema = config.schema(offered)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["required"] == ["models"]
    drain = schema["properties"]["drain"]["properties"]["timeout"]
    assert drain["description"].startswith("After this, what still runs is cut")
    assert drain["default"] == "10m"
    assert "ms|s|m|h" in drain["pattern"]
    registry = schema["properties"]["discovery"]["items"]["anyOf"][1]
    assert registry["properties"]["use"]["enum"] == ["none", "registry"]
    (rule,) = [r for r in registry["allOf"] if r["if"]["properties"]["use"]["const"] == "registry"]
    options = rule["then"]["properties"]["options"]
    assert options["required"] == ["ensemble"]
    assert options["properties"]["session"]["description"].startswith("How long the session")


def test_every_field_of_the_spec_that_has_a_docstring_has_a_description() -> None:
    """The schema is the reference: what the source says is what the editor shows."""
    text = str(config.schema())
    for words in (
        "A bare path is mounted",
        "computed from the python models",
        "waits for its acknowledgement",
    ):
        assert words in text


# What the runtime cannot do.


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("placement: {node_label: GPU}", "placement.node_label = 'GPU'"),
        ("placement: {spread: none}", "placement.spread = 'none'"),
        ("placement: {scope: cluster}", "placement.scope = 'cluster'"),
        ("placement: {tag: a100}", "placement.tag = 'a100'"),
        ("placement: {avoid_after_failures: 5}", "placement.avoid_after_failures = 5"),
        ("master: {node_label: cpu}", "master.node_label = 'cpu'"),
    ],
)
def test_placement_is_refused_where_nothing_places(
    offered: plugins.Plugins, tmp_path: Path, text: str, place: str
) -> None:
    """Where it was written, which runtime, and which one could."""
    (message,) = messages(tmp_path, f"{text}\n", offered)
    assert message == (
        f"tarn.yaml:3: {place}: the runtime 'local' cannot choose where an instance"
        " runs. Remove it, or choose a runtime that can: rich"
    )


def test_the_defaults_of_placement_ask_for_nothing(
    offered: plugins.Plugins, tmp_path: Path
) -> None:
    """A file that writes them out means nothing by it; a runtime that places takes anything."""
    written = "placement: {tag: nvidia, spread: node, scope: all, node_label: ''}\n"
    (tmp_path / "tarn.yaml").write_text(f"name: a\nmodels: /m\n{written}")
    assert config.load(tmp_path, environ={}, plugins=offered).notes == ()
    rich = "runtime: {use: rich}\nplacement: {node_label: GPU, spread: none}\n"
    (tmp_path / "tarn.yaml").write_text(f"name: a\nmodels: /m\n{rich}")
    assert config.load(tmp_path, environ={}, plugins=offered).notes == ()


def test_gpus_are_refused_where_there_are_none(offered: plugins.Plugins, tmp_path: Path) -> None:
    """Every error at once, as always."""
    text = "runtime: {use: poor}\ninstance: {resources: {gpus: 2}}\nreplicas: {min: 3, max: 2}\n"
    found = messages(tmp_path, text, offered)
    assert len(found) == 2
    assert found[1] == (
        "tarn.yaml:4: instance.resources.gpus = 2: the runtime 'poor' cannot give an"
        " instance a GPU. Remove it, or choose a runtime that can: local, rich"
    )


@pytest.mark.parametrize("by_argument", [True, False])
def test_an_old_option_for_a_tag_is_accepted_with_a_note(
    offered: plugins.Plugins, by_argument: bool
) -> None:
    """A site's PLACEMENT_TAG is meant for its YARN; a key of ours is an error."""
    source = {"name": "a", "models": "/m"}
    given: dict[str, Any] = {"aliases": {"placement-tag": "a100"}} if by_argument else {}
    environ = {} if by_argument else {"PLACEMENT_TAG": "a100"}
    loaded = config.load(source, environ=environ, plugins=offered, **given)
    origin = "argument --placement-tag" if by_argument else "environment PLACEMENT_TAG"
    why = "the runtime 'local' cannot choose where an instance runs"
    assert loaded.notes == (f"{origin}: accepted, but has no effect: {why}",)
    with pytest.raises(ConfigErrors, match=r"placement\.tag"):
        config.load({**source, "placement": {"tag": "b"}}, environ={}, plugins=offered)


@pytest.mark.parametrize("name", ["http-restricted-api", "grpc_restricted_protocol"])
def test_keys_of_restricted_parts_are_masked_whatever_their_name(name: str) -> None:
    """In the option, in a list of them, and in a command line; who has a key sees which part."""
    groups = ["statistics,trace:mine=a,b=c&d e", "logging:other=f", "no group"]
    shown = ["statistics,trace:mine=***", "logging:other=***", "***"]
    assert config.redact({"args": {name: groups}}) == {"args": {name: shown}}
    assert config.redact({"args": {name: groups[0]}}) == {"args": {name: shown[0]}}
    assert config.redact({"args": {name: None}}) == {"args": {name: None}}
    assert config.redact([f"--{name}={groups[0]}"]) == [f"--{name}={shown[0]}"]


def test_a_limit_of_memory_is_refused_where_nobody_measures_it(
    offered: plugins.Plugins, tmp_path: Path
) -> None:
    """YARN's nodes know it, and tell no application."""
    (message,) = messages(tmp_path, "runtime: {use: rich}\ninstance: {max_rss: 2GiB}\n", offered)
    assert message == (
        "tarn.yaml:4: instance.max_rss = 2048MiB: the runtime 'rich' cannot tell how much "
        "memory an instance holds. Remove it, no runtime here can"
    )


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("10", "a duration or 'auto' is needed"),
        ("0s", "must be 'auto' or more than 0s"),
        ("never", "a duration or 'auto' is needed"),
    ],
)
def test_when_an_instance_is_stalled_is_a_duration_or_auto(
    offered: plugins.Plugins, tmp_path: Path, written: str, found: str
) -> None:
    text = f"instance: {{unwell: {{stalled_after: {written}}}}}\n"
    (message,) = messages(tmp_path, text, offered)
    assert "instance.unwell.stalled_after" in message
    assert found in message


def test_the_file_of_a_test_request_starts_at_the_folder_of_the_configuration(
    offered: plugins.Plugins, tmp_path: Path
) -> None:
    text = "name: a\nmodels: /m\ninstance: {test_request: test.json, max_age: 1d}\n"
    (tmp_path / "tarn.yaml").write_text(text)
    instance = config.load(tmp_path, environ={}, plugins=offered).spec.instance
    assert instance.test_request == str(tmp_path / "test.json")
    assert instance.max_age_s == 86400.0
    assert instance.unwell.stalled_after_s == "auto"
