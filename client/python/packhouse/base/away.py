"""What counts as away: the failures that pass by themselves, and what they mean.

The C++ client has the same rows (client/cpp/away.cc); tests/structure/retry_advice_test.py compares
them. Which calls are safe to make again is said by `service_config()` of `packhouse.calls.channel`, and by
the numbers of producers for those that append and observe.
"""

from __future__ import annotations

from typing import Final

# A code, and words of its message in small letters; "": whatever it says. gRPC makes CANCELLED of
# the moment of a server's leaving, DEADLINE_EXCEEDED of one that stands still, and INTERNAL or
# UNKNOWN of a stream that something else than the server has ended. HTTP/2's error 11 is "enhance
# your calm": gRPC ends any call by it when those that are being received take too much memory.
_PASSES: Final = (
    ("UNAVAILABLE", ""),
    ("CANCELLED", ""),
    ("DEADLINE_EXCEEDED", ""),
    ("RESOURCE_EXHAUSTED", "no space left"),
    ("RESOURCE_EXHAUSTED", "disk quota exceeded"),
    ("RESOURCE_EXHAUSTED", "database space exceeded"),
    ("RESOURCE_EXHAUSTED", "rst_stream with error code 11"),
    ("INTERNAL", "rst_stream"),
    ("UNKNOWN", "stream removed"),
)

# Words of gRPC's by which a status is not the server's, and what they mean.
_MEANINGS: Final = (
    ("rst_stream with error code 11", "the server lacked memory, and ended it (--memory-budget)"),
    ("rst_stream", "a proxy has ended the call: see its timeouts (nginx: grpc_read_timeout)"),
    ("http2 header with status", "a proxy answered, which does not reach the server"),
    ("enter idle", "the server ended the connection (--max-connection-age)"),
)


def passes(code: str, message: str) -> bool:
    """Whether a call that is safe to repeat may succeed if it is made again. `code` by its name."""
    words = message.lower()
    return any(code == each and part in words for each, part in _PASSES)


def meaning_of_end(message: str) -> str:
    """What gRPC's words about the end of a call mean, to be put behind them; or ""."""
    words = message.lower()
    return next((f": {meaning}" for part, meaning in _MEANINGS if part in words), "")
