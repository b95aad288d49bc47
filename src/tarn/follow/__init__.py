"""The client of a master: ask it, command it, and follow its streams."""

from tarn.follow.api import Api, Message

__all__ = ["Api", "Message"]
