"""Programs that speak to one Triton learn the same from a fleet behind one address."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from one_address import Addresses, SharedAddress
from one_triton.client_programs import PROGRAMS, Needs
from tritonclient.utils import InferenceServerException

LACKING = {
    Needs.READABLE: "a compressed message without the header is refused, never guessed",
}
"""What a fleet behind HAProxy does not do as one Triton does it."""


def _cases() -> Iterator[Any]:
    for name, program in PROGRAMS.items():
        marks = []
        if program.needs == Needs.GPU:
            lacking = shutil.which("nvidia-smi") is None
            marks.append(pytest.mark.skipif(lacking, reason=f"{program.like}: needs {Needs.GPU}"))
        elif why := LACKING.get(program.needs):
            marks.append(
                pytest.mark.xfail(
                    reason=f"{program.like}: needs {program.needs}; {why}", strict=False
                )
            )
        yield pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", list(_cases()))
def test_a_program_learns_from_the_fleet_what_one_triton_tells_it(
    name: str, alone: Addresses, shared: SharedAddress
) -> None:
    program = PROGRAMS[name].run
    told = program(alone)
    assert program(shared.addresses) == told


def test_a_program_that_a_fleet_cannot_serve_is_right_at_one_triton(alone: Addresses) -> None:
    """So it is the fleet that it lacks, not the program."""
    lacking = [name for name, program in PROGRAMS.items() if program.needs in LACKING]
    assert len(lacking) == 1
    for name in lacking:
        PROGRAMS[name].run(alone)


def test_a_compressed_message_is_refused_with_a_sentence(shared: SharedAddress) -> None:
    """Nobody can tell whether it belongs to a sequence, and to which."""
    with pytest.raises(InferenceServerException, match="compressed"):
        PROGRAMS["grpc_compressed"].run(shared.addresses)


def test_every_example_that_nvidia_publishes_has_its_program() -> None:
    """The 24 that need neither images nor a GPU."""
    ways = " ".join(program.like for program in PROGRAMS.values())
    for name in NVIDIAS_24:
        assert name in ways, name


NVIDIAS_24 = (
    "reuse_infer_objects_client",
    *(
        f"simple_grpc_{what}"
        for what in (
            *("aio_infer_client", "aio_sequence_stream_infer_client", "async_infer_client"),
            *("custom_args_client", "custom_repeat", "health_metadata", "infer_client"),
            *("keepalive_client", "model_control", "sequence_stream_infer_client"),
            *("sequence_sync_infer_client", "shm_client", "shm_string_client"),
            "string_infer_client",
        )
    ),
    *(
        f"simple_http_{what}"
        for what in (
            *("aio_infer_client", "async_infer_client", "health_metadata", "infer_client"),
            *("model_control", "sequence_sync_infer_client", "shm_client", "shm_string_client"),
            "string_infer_client",
        )
    ),
)
