"""A setting with which a process may fork, and start programs. Imports nothing of gRPC."""

import os


def keep_forks_apart() -> None:
    """Sets GRPC_POLL_STRATEGY=poll, unless the variable is set.

    gRPC's own choice, epoll, leaves its file descriptor open when all channels are closed. A forked
    process would share it with its parent, and each would get the other's events, up to a crash:
    grpcio 1.80 also ends programs that Python 3.9 starts, before they begin. For the few connections
    of a client poll is as fast. gRPC looks at the variable when the process makes its first channel,
    newer versions when it is imported. Importing packhouse calls this first of all.
    """
    os.environ.setdefault("GRPC_POLL_STRATEGY", "poll")
