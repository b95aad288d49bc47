"""How patient a client is."""

import ssl

import attrs

__all__ = ["ClientOptions"]


def _positive(_self: object, attribute: "attrs.Attribute[float]", value: float) -> None:
    if not value > 0:
        raise ValueError(f"{attribute.name} = {value} is not above 0")


@attrs.frozen
class ClientOptions:
    """What a client's caller may choose; every time is in seconds."""

    wait_s: float = attrs.field(default=30.0, validator=attrs.validators.ge(0))
    """For an instance to become ready, or to be reached, before a call gives up."""
    connect_within_s: float = attrs.field(default=2.0, validator=_positive)
    """For one connection; a host that lost its power answers nothing at all."""
    answer_within_s: float = attrs.field(default=60.0, validator=_positive)
    """Without a byte of the answer for so long, a call ends; tritonclient's default."""
    control_within_s: float = attrs.field(default=900.0, validator=_positive)
    """For a control call, such as the load of a model, to be done by every instance in the view."""
    retry_resets: bool = True
    """Whether an inference that was cut is sent again; it may then be executed twice."""
    tls: ssl.SSLContext | None = attrs.field(default=None, repr=False)
    """For addresses with https; None: the system's certificates."""
