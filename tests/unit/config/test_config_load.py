"""File, environment and arguments to one spec."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tarn import config
from tarn.config import document
from tarn.config.document import text_of
from tarn.config.draft import copied
from tarn.domain import spec as parts
from tarn.errors import ConfigErrors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty folder with a name that can name a cluster."""
    folder = tmp_path / "My_Fleet"
    folder.mkdir()
    return folder


def write(folder: Path, text: str) -> Path:
    path = folder / "tarn.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def messages(folder: Path, text: str, **more: Any) -> list[str]:
    """Return every error of one reading."""
    with pytest.raises(ConfigErrors) as caught:
        config.load(write(folder, text), **{"environ": {}, **more})
    return [str(error) for error in caught.value.errors]


def test_only_models_must_be_given(folder: Path) -> None:
    """The folder names the cluster, and its repository starts at the folder."""
    spec = config.load(write(folder, "models: repo\n"), environ={}).spec
    assert spec.name == "my-fleet"
    assert spec.models.repository == str(folder / "repo")


def test_a_folder_stands_for_its_tarn_yaml(folder: Path) -> None:
    """As does its path as text."""
    write(folder, "models: repo\n")
    assert config.load(str(folder), environ={}).spec.name == "my-fleet"


def test_arguments_win_over_environment_over_file_over_defaults(folder: Path) -> None:
    """Each value remembers where it came from."""
    path = write(folder, "models: repo\nreplicas:\n  min: 1\n  max: 2\n  initial: 2\n")
    loaded = config.load(
        path,
        arguments={"replicas": {"min": 2}},
        aliases={"max-instances": 9},
        environ={"MIN_CONTAINERS": "3", "MAX_CONTAINERS": "4", "MONITOR_INTERVAL_MS": "2000"},
    )
    assert (loaded.spec.replicas.min, loaded.spec.replicas.max) == (2, 9)
    assert loaded.spec.scaling.interval_s == 2.0
    origins = loaded.origins
    assert origins["replicas.min"] == "argument: replicas.min"
    assert origins["replicas.max"] == "argument --max-instances"
    assert origins["replicas.initial"] == "tarn.yaml:5"
    assert origins["scaling.interval"] == "environment MONITOR_INTERVAL_MS"
    assert origins["drain.timeout"] == "default"
    assert origins["name"] == "the folder's name"


def test_the_environment_counts_only_where_it_is_set() -> None:
    """An empty variable is as good as none."""
    source = {"name": "a", "models": "hdfs:///m", "replicas": {"min": 2}}
    assert config.load(source, environ={"MIN_CONTAINERS": ""}).spec.replicas.min == 2


def test_all_errors_come_at_once_with_file_and_line(folder: Path) -> None:
    """Unknown key, missing unit, wrong type and contradiction, in one reading."""
    text = (
        "models: repo\nreplicas: {min: 3, max: 2}\ndrain:\n  timeout: 30\nreplica: 2\n"
        "min-instances: 4\nlog: {level: inf}\n"
    )
    assert sorted(messages(folder, text)) == [
        "tarn.yaml:2: replicas.max = 2 is below replicas.min = 3; raise the one or lower the other",
        (
            "tarn.yaml:4: drain.timeout = 30: a duration needs its unit. "
            "Write 30s, or for example 10m, 1.5s or 250ms"
        ),
        "tarn.yaml:5: replica: unknown key. Did you mean 'replicas'?",
        "tarn.yaml:6: min-instances: unknown key. Did you mean 'replicas.min'?",
        (
            "tarn.yaml:7: log.level = 'inf': must be 'debug' or 'info' or 'warning' or 'error'. "
            "Did you mean 'info'?"
        ),
    ]


def test_each_kind_of_error_has_its_code(folder: Path) -> None:
    """Unknown key, wrong value, contradiction."""
    with pytest.raises(ConfigErrors) as caught:
        config.load(
            write(folder, "models: r\nx: 1\napi: {port: a}\nreplicas: {max: 0}"), environ={}
        )
    assert sorted(error.code for error in caught.value.errors) == [
        "TARN-2001",
        "TARN-2002",
        "TARN-2003",
    ]
    assert caught.value.exit_code == 2


def test_a_value_that_was_not_read_contradicts_nothing(folder: Path) -> None:
    """The default that would stand in its place was not written by anybody."""
    (only,) = messages(folder, "models: r\nreplicas: {min: '0', max: 0}\n")
    assert "replicas.min = '0': a whole number is needed" in only


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "tarn.yaml: models is missing; it must be given"),
        ("- a\n", "tarn.yaml: a mapping (key: value) is needed"),
        ("a: [\n", "tarn.yaml:2: not YAML: expected the node content, but found '<stream end>'"),
        ("models: a\nmodels: b\n", "tarn.yaml:2: models is given twice, first at tarn.yaml:1"),
        ("models: a\n1: b\n", "tarn.yaml:2: the key 1 is not text. Write it in quotes"),
        ("models: !!python/object:os.system a\n", "the tag '!!python/object:os.system' is"),
        ("models: !!int ''\n", "tarn.yaml:1: models: the tag '!!int' is not supported"),
        ("models: \x07\n", "tarn.yaml:1: has a character that cannot be seen: U+0007"),
        ("a: &x [*x]\n", "tarn.yaml: not YAML: line 1 contains itself"),
        ("models: a\n---\nmodels: b\n", "but found another document"),
        ("models: a\nname: Llama\n", "tarn.yaml:2: name = 'Llama': must be 1 to 40 small letters"),
        ("models: {repository: a, serve: llama}", "models.serve = 'llama': a list is needed"),
        ("models: a\ntriton: {env: {N: 4}}", ('triton.env.N = 4: text is needed. Write it in '
                                             'quotes: "4"')),
        ("models: a\nstart: 2026-01-01\n", "start: unknown key"),
        ("models: a\ntriton: {args: {x: 2026-01-01}}", "Write it in quotes"),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_clear_line(folder: Path, text: str, message: str) -> None:
    """Place, what was found, what is right."""
    assert message in messages(folder, text)[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("triton: {env: {A: 0027}}", ('A = 0027: YAML 1.1 reads it as 23, YAML 1.2 as 27. Write it '
                                     'in quotes: "0027"')),
        ("triton: {env: {A: 1.10}}", 'A = 1.10: text is needed. Write it in quotes: "1.10"'),
        ("triton: {env: {A: True}}", 'A = True: text is needed. Write it in quotes: "True"'),
        ("triton: {env: {A: 12:30:00}}", ('12:30:00: YAML 1.1 reads it as 45000, YAML 1.2 as text. '
                                         'Write it in quotes: "12:30:00"')),
        ("triton: {env: {A: 2024-01-01}}", 'Write it in quotes: "2024-01-01"'),
        ("admins: {users: [ops, 1.10]}", ('users[1] = 1.10: text is needed. Write it in quotes: '
                                         '"1.10"')),
        ("triton: {env: {OFF: a}}", ('the key OFF: YAML 1.1 reads it as false, YAML 1.2 as text. '
                                    'Write it in quotes: "OFF"')),
        ("triton: {env: {1.10: a}}", 'the key 1.10 is not text. Write it in quotes: "1.10"'),
        ("triton: {env: {API_TOKEN: 0123}}", "API_TOKEN = ***: YAML 1.1 and YAML 1.2 read it"),
        ("replicas: {max: 010}", "010: YAML 1.1 reads it as 8, YAML 1.2 as 10. Write 8 or 10"),
        ("triton: {http_port: 010000}", "Write 4096 or 10000"),
        ("drain: {timeout: 12:30}", "Write a duration, for example 10m"),
        ("triton: {args: {a: on}}", 'Write true, or "on" for text'),
        ("models: ''", "models.repository is missing"),
    ],
)  # fmt: skip
def test_advice_quotes_what_the_file_says(folder: Path, text: str, message: str) -> None:
    """Not what PyYAML made of it; a secret is not told again."""
    (only,) = messages(folder, f"models: a\n{text}\n" if "models" not in text else text)
    assert message in only
    assert "0123" not in only


def test_what_is_written_is_read_alike_by_every_yaml() -> None:
    """The spec of a cluster goes to its master through a file."""
    odd = ["010", "1e3", "off", "12:30", "=", "<<", "~", "", "a\u2028b", "a\x85b", "\u00a0", " a",
           "2024-01-01", "0o7", "!x", "&x", "08", "a\nb",
           "*", "&", "!", "?", "-", "|", "%", "@", "`"]  # fmt: skip
    env = {f"N{number}": text for number, text in enumerate(odd)} | {"off": "1", "010": "2"}
    spec = config.load({"name": "a", "models": "/m", "triton": {"env": env}}, environ={}).spec
    for flow in (False, True):
        text = text_of(config.dump(spec), flow=flow)
        assert yaml.safe_load(text) == config.dump(spec)
        read = document.parse(text, "spec.yaml")
        assert config.load(copied(read.plain), environ={}).spec == spec


def test_a_missing_or_unreadable_file_is_one_clear_line(tmp_path: Path) -> None:
    """Not there; not text."""
    with pytest.raises(ConfigErrors, match="there is no such file"):
        config.load(tmp_path / "no.yaml", environ={})
    (tmp_path / "tarn.yaml").write_bytes(b"models: \xff")
    with pytest.raises(ConfigErrors, match="is not UTF-8 text"):
        config.load(tmp_path, environ={})


def test_yaml_that_blows_itself_up_is_refused(folder: Path) -> None:
    """Aliases of aliases of aliases."""
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    assert "more than 100000 values" in messages(folder, "\n".join(lines))[0]


def test_a_folder_that_cannot_name_a_cluster_asks_for_a_name(tmp_path: Path) -> None:
    """Nothing is left of its name once what is not allowed is gone."""
    folder = tmp_path / "模型"
    folder.mkdir()
    (message,) = messages(folder, "models: a\n")
    assert "the folder's name '模型' cannot be used instead" in message


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("models: sub/../repo", "models.repository", "{folder}/repo"),
        ("models: ~/repo", "models.repository", "/home/u/repo"),
        ("models: /abs", "models.repository", "/abs"),
        ("models: hdfs:///user/models", "models.repository", "hdfs:///user/models"),
        ("models: m\ntriton: {binary: bin/t}", "triton.binary", "{folder}/bin/t"),
        ("models: m\napi: {token: 'file:tok'}", "api.token", "file:{folder}/tok"),
        ("models: m\napi: {tls: {cert: c.pem}}", "api.tls.cert", "{folder}/c.pem"),
        ("models: m\nupdate: {smoke: s.json}", "update.smoke", "{folder}/s.json"),
        ("models: m\ninstance: {test_request: t.json}", "instance.test_request", "{folder}/t.json"),
        ("models: m\ninstance: {test_request: none}", "instance.test_request", "none"),
    ],
)
def test_relative_paths_start_at_the_files_folder(
    folder: Path, text: str, path: str, value: str
) -> None:
    """A master elsewhere reads them as absolute; a URI stays as it is."""
    plain: Any = config.dump(config.load(write(folder, text), environ={"HOME": "/home/u"}).spec)
    for key in path.split("."):
        plain = plain[key]
    assert plain == value.format(folder=folder)


def test_relative_paths_of_an_argument_start_where_the_command_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As for any command."""
    monkeypatch.chdir(tmp_path)
    loaded = config.load(write(folder, "models: a"), aliases={"model-repository": "b"}, environ={})
    assert loaded.spec.models.repository == str(tmp_path / "b")


def test_another_provider_does_not_inherit_options(folder: Path) -> None:
    """`scaling.use` replaced by an argument drops the options of the one before."""
    path = write(folder, "models: a\nscaling: {use: target, options: {signal: x}, cooldown: 5s}\n")
    spec = config.load(path, arguments={"scaling": {"use": "fixed"}}, environ={}).spec
    assert (spec.scaling.use, spec.scaling.options, spec.scaling.cooldown_s) == ("fixed", {}, 5.0)


def test_a_choice_can_be_one_word(folder: Path) -> None:
    """`runtime: local` is short for `runtime: {use: local}`, also in a list."""
    path = write(folder, "models: a\nruntime: other\ndiscovery: [zk]\n")
    spec = config.load(path, environ={}).spec
    assert (spec.runtime.use, spec.discovery[0].use) == ("other", "zk")


def test_null_takes_a_part_away(folder: Path) -> None:
    """`farm: null` over a file with a farm."""
    path = write(folder, "models: a\nfarm: {name: alice, min: 2}\n")
    farm = config.load(path, environ={}).spec.farm
    assert farm is not None
    assert farm.min == 2
    assert config.load(path, arguments={"farm": None}, environ={}).spec.farm is None


def test_an_alias_finds_its_item_in_the_files_list(folder: Path) -> None:
    """A second ZooKeeper would be something else than was asked for."""
    text = (
        "models: a\ndiscovery:\n  - {use: other}\n"
        "  - {use: zookeeper, options: {ensemble: 'a:1', path: /p}}\n"
    )
    loaded = config.load(write(folder, text), aliases={"zk-ensemble": "b:1"}, environ={})
    other, zookeeper = loaded.spec.discovery
    assert other.use == "other"
    assert zookeeper.options == {"ensemble": "b:1", "path": "/p"}
    assert loaded.origins["discovery[1].options.path"] == "tarn.yaml:4"


def test_a_token_in_the_file_is_refused_and_not_shown(folder: Path) -> None:
    """`api.token` says where the token is; a token itself would be read by everybody."""
    (message,) = messages(folder, "models: a\napi: {token: hunter2}\n")
    assert "'auto', 'none', 'file:PATH' or 'env:NAME'" in message
    assert "hunter2" not in message


def test_merge_keys_and_anchors_work(folder: Path) -> None:
    """Plain YAML, as people use it."""
    text = "models: a\nx: &r {min: 1, max: 4}\nreplicas: {<<: *r, max: 3}\n"
    (message,) = messages(folder, text)
    assert message.startswith("tarn.yaml:2: x: unknown key")
    text = "models: a\ntriton:\n  env: &e {A: b}\n  args: {<<: *e}\n"
    assert config.load(write(folder, text), environ={}).spec.triton.args == {"A": "b"}


def test_a_masters_spec_is_final(folder: Path) -> None:
    """With an empty environment, what was dumped is what is loaded."""
    environ = {"MIN_CONTAINERS": "3", "HOME": "/home/u"}
    spec = config.load(write(folder, "models: ~/a\n"), environ=environ).spec
    assert config.load(config.dump(spec), environ={}).spec == spec


def test_the_environment_is_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later changes of the process do not reach what was read."""
    monkeypatch.setenv("TARN_TEST", "before")
    taken = config.environ()
    monkeypatch.setenv("TARN_TEST", "after")
    assert taken["TARN_TEST"] == "before"


@pytest.mark.parametrize(
    ("environ", "home", "cache"),
    [
        ({"HOME": "/home/u"}, "/home/u/.tarn", "/home/u/.cache/tarn"),
        ({"HOME": "/h", "TARN_HOME": "/t"}, "/t", "/h/.cache/tarn"),
        ({"HOME": "/h", "XDG_CACHE_HOME": "/c"}, "/h/.tarn", "/c/tarn"),
    ],
)
def test_tarn_home_and_xdg_cache_home_move_the_files(
    environ: Mapping[str, str], home: str, cache: str
) -> None:
    """And nothing else does."""
    paths = config.paths(environ)
    assert (str(paths.home), str(paths.cache)) == (home, cache)


def test_the_manuals_example_with_every_key_loads(folder: Path) -> None:
    """Every key of the design is known, and every unit is read."""
    text = Path(__file__).with_name("whole.yaml").read_text(encoding="utf-8")
    spec = config.load(write(folder, text), environ={}).spec
    assert spec.instance.resources.memory_mib == 65536
    assert spec.scaling.down.window_s == 300.0
    assert spec.runtime.options["docker"]["delayed_removal"] is False  # type: ignore[index]
    assert spec.api.trusted_proxies[0].authenticated_by == "mtls"
    assert spec.farm is not None
    assert spec.farm.scaledown_after_n_triggers == 5
    assert spec.api.tls == parts.TlsSpec(
        cert=str(folder / "cert.pem"),
        key=str(folder / "key.pem"),
        client_ca=str(folder / "ca.pem"),
    )
