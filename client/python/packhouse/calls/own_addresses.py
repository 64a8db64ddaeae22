"""Which addresses are this machine's own. See `packhouse.calls.channel`."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from typing import Final, Mapping

# Those of which gRPC takes the first that is set.
_PROXIES: Final = ("grpc_proxy", "https_proxy", "http_proxy")
_SCHEME: Final = re.compile(r"(dns:(///?)?|ipv4:|ipv6:)", re.IGNORECASE)


def is_own(address: str) -> bool:
    """Whether an address in gRPC's form is of this machine: a socket in a folder, a loopback
    address, or one that this machine has. Of names only `localhost` and the machine's are known.
    """
    if address.startswith(("unix:", "unix-abstract:", "vsock:")):
        return True
    host = _host(address)
    if host == "localhost" or host.endswith(".localhost") or host == socket.gethostname().lower():
        return True
    try:
        parsed = ipaddress.ip_address(host)
    except ValueError:
        return False
    family = socket.AF_INET if parsed.version == 4 else socket.AF_INET6
    try:
        # Whoever has an address may bind it.
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
        return True
    except OSError:
        return parsed.is_loopback


def proxy_variable(address: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The variable of the environment by which gRPC may go to that address by an HTTP proxy."""
    if is_own(address):
        return None
    return next((name for name in _PROXIES if environment.get(name)), None)


def _host(address: str) -> str:
    rest = _SCHEME.sub("", address, count=1).rsplit("/", 1)[-1]
    if rest.startswith("["):
        return rest[1:].split("]", 1)[0].lower()
    # HOST:PORT; an IPv6 address without brackets has no port.
    return (rest.rsplit(":", 1)[0] if rest.count(":") == 1 else rest).lower()
