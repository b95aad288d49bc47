"""What a spec shows of itself in a notebook, a log or a traceback."""

from tarn.domain.spec import Choice, ModelsSpec, TritonSpec

SECRET = "canary-4711"


def test_a_spec_names_its_values_and_hides_them() -> None:
    """Environment, arguments and options by their names; a URI without who may read it."""
    shown = repr(
        (
            TritonSpec(
                env={"HF_TOKEN": SECRET}, args={"http-restricted-api": f"logging:key={SECRET}"}
            ),
            Choice("haproxy", {"password": SECRET}),
            ModelsSpec(f"s3://user:{SECRET}@host/models"),
        )
    )
    assert SECRET not in shown
    for name in ("HF_TOKEN", "http-restricted-api", "password", "s3://***@host/models"):
        assert name in shown
