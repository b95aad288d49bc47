"""Laws of the configuration, over specs and junk that hypothesis makes up."""

from typing import Any

import attrs
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tarn import config
from tarn.domain import spec as parts
from tarn.errors import ConfigError, ConfigErrors

words = st.text(alphabet="abcdefghij-_. é模'\"\\$", min_size=1, max_size=12)
plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | words
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
options = st.dictionaries(words, plain_values, max_size=3)
texts = st.dictionaries(words, words, max_size=3)
seconds = st.floats(min_value=0.1, max_value=1e7) | st.integers(1, 10**6).map(float)
mib = st.integers(1, 2**40)
absolute = st.sampled_from(["/models", "hdfs:///models", "s3://bucket/models"])
choices = st.builds(parts.Choice, use=words, options=options)


@st.composite
def replicas(draw: st.DrawFn) -> parts.ReplicasSpec:
    low = draw(st.integers(0, 20))
    high = draw(st.integers(low, 40))
    return parts.ReplicasSpec(low, high, draw(st.none() | st.integers(low, high)))


specs = st.builds(
    parts.ClusterSpec,
    name=st.from_regex(r"[a-z0-9-]{1,40}", fullmatch=True),
    models=st.builds(
        parts.ModelsSpec, repository=absolute, serve=st.lists(words, max_size=3).map(tuple),
        require=st.sampled_from(["any", "all"]), control=st.sampled_from(["none", "explicit"]),
    ),
    triton=st.builds(
        parts.TritonSpec, image=words, env=texts, args=options, exit_timeout_s=seconds,
        http_port=st.none() | st.integers(1, 9), grpc_port=st.integers(10, 19) | st.none(),
    ),
    instance=st.builds(
        parts.InstanceSpec,
        resources=st.builds(
            parts.ResourcesSpec, memory_mib=mib, shm_mib=st.none() | mib, gpus=st.integers(0, 8)
        ),
        start_timeout_s=seconds, warmup=st.none() | words, test_request=st.none() | absolute,
    ),
    replicas=replicas(),
    scaling=st.builds(
        parts.ScalingSpec, use=words, options=options, cooldown_s=seconds, interval_s=seconds,
        up=st.builds(parts.WindowSpec, window_s=seconds),
    ),
    drain=st.builds(parts.DrainSpec, timeout_s=seconds, quiesce_s=seconds),
    runtime=choices,
    api=st.builds(
        parts.ApiSpec, port=st.integers(0, 65535),
        token=st.sampled_from(["auto", "none", "file:/t", "env:T"]),
        trusted_proxies=st.lists(
            st.builds(
                parts.TrustedProxy, name=st.sampled_from(["lb1", "lb2"]),
                address=st.sampled_from(["10.0.0.5", "10.0.0.0/24", "fd00::/64"]),
                authenticated_by=st.just("token"), token=st.just("env:LB"),
                users=st.lists(words, min_size=1, max_size=2).map(tuple),
            ),
            max_size=2, unique_by=lambda one: one.name,
        ).map(tuple),
    ),
    discovery=st.lists(
        st.builds(parts.DiscoverySpec, use=words, options=options, required=st.booleans()),
        max_size=2,
    ).map(tuple),
    authorizer=choices,
    admins=st.builds(parts.SubjectsSpec, users=st.lists(words, max_size=2).map(tuple)),
    viewers=st.builds(parts.SubjectsSpec, groups=st.lists(words, max_size=2).map(tuple)),
    secrets=st.lists(choices, max_size=2).map(tuple),
    farm=st.none() | st.builds(parts.FarmSpec, name=words, max=st.none() | st.integers(0, 9)),
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(spec=specs)
def test_a_dumped_spec_loads_as_itself(spec: parts.ClusterSpec) -> None:
    """Directly, and through YAML text as a master reads it."""
    plain = config.dump(spec)
    assert config.load(plain, environ={}).spec == spec
    text = yaml.safe_dump(plain, allow_unicode=True)
    assert config.load(yaml.safe_load(text), environ={}).spec == spec


@settings(max_examples=40, deadline=None)
@given(spec=specs)
def test_every_leaf_has_an_origin_and_is_explained(spec: parts.ClusterSpec) -> None:
    """No value comes from nowhere."""
    loaded = config.load(config.dump(spec), environ={})
    explained = {path: origin for path, _, origin in config.explain(loaded)}
    assert set(explained) == set(loaded.origins)
    assert all(explained.values())


@settings(max_examples=40, deadline=None)
@given(spec=specs, use=words)
def test_the_hash_moves_only_with_what_decides_a_launch(spec: parts.ClusterSpec, use: str) -> None:
    """Size, scaling, runtime and test requests do not; the image does."""
    instance = attrs.evolve(spec.instance, test_request=use)
    same = attrs.evolve(spec, name="other", scaling=parts.ScalingSpec(use=use), instance=instance)
    assert config.spec_hash(same) == config.spec_hash(spec)
    assert len(config.spec_hash(spec)) == 12
    moved = attrs.evolve(spec, triton=attrs.evolve(spec.triton, image=spec.triton.image + "x"))
    assert config.spec_hash(moved) != config.spec_hash(spec)


keys = st.sampled_from(
    ["name", "models", "triton", "replicas", "scaling", "runtime", "discovery", "secrets", "api",
     "use", "options", "env", "min", "repository", "token", "tls", "cooldown", "farm", "instance",
     "resources", "memory", "up", "window", "TRITON_LOG_VERBOSE", "args"]
)  # fmt: skip
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words | st.binary(max_size=3)
    | st.dates() | st.sampled_from(["1s", "4GiB", "auto", "", "file:", "~", "1e999s", "10m"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(keys | words | st.integers() | st.none(), inner, max_size=5),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    source=st.dictionaries(keys | st.integers(), junk, max_size=5),
    arguments=st.dictionaries(keys, junk, max_size=3),
    aliases=st.dictionaries(
        st.sampled_from([alias.long for alias in config.ALIASES if alias.long]), junk, max_size=3
    ),
    environ=st.dictionaries(
        st.sampled_from([alias.env for alias in config.ALIASES if alias.env]), words, max_size=3
    ),
)
def test_junk_raises_config_errors_and_nothing_else(
    source: dict[Any, Any], arguments: dict[str, Any], aliases: dict[str, Any],
    environ: dict[str, str],
) -> None:  # fmt: skip
    """Whatever is written: a spec, or errors in words."""
    loaded = load_or_errors(source, arguments=arguments, aliases=aliases, environ=environ)
    if isinstance(loaded, config.LoadedSpec):
        assert config.load(config.dump(loaded.spec), environ={}).spec == loaded.spec
    else:
        assert all(str(error) for error in loaded)


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=60) | st.text(alphabet="a: -[]{}&*!|>'\"\n#%@`\t?,~<1", max_size=40))
def test_any_text_as_a_file_raises_config_errors_and_nothing_else(text: str) -> None:
    """YAML's many ways to be wrong all end in a line with a place."""
    read = document_or_errors(text)
    assert isinstance(read, dict) or all(str(error) for error in read)


def load_or_errors(source: Any, **more: Any) -> config.LoadedSpec | tuple[ConfigError, ...]:
    try:
        return config.load(source, **{"environ": {}, **more})
    except ConfigErrors as errors:
        return errors.errors


def document_or_errors(text: str) -> dict[str, Any] | tuple[ConfigError, ...]:
    try:
        return config.document.parse(text, "tarn.yaml").plain
    except ConfigErrors as errors:
        return errors.errors
