# SPDX-License-Identifier: Apache-2.0
"""Where this host listens: at the interface by which it reaches the job's first host, as torch's own backends do."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from typing import Any

_SIOCGIFADDR = 0x8915  # of an interface, by its name: netdevice(7)


def interface_of_job(store: Any) -> str:
    """For UniqueId.create(); "" leaves it to CCOLL_SOCKET_IFNAME, and to loopback where that is not set."""
    if os.environ.get("CCOLL_SOCKET_IFNAME"):
        return ""
    named = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    if named:
        return "=" + named
    host = _host_of(store) or os.environ.get("MASTER_ADDR", "")
    return interface_towards(host) if host else ""


def _host_of(store: Any) -> str:
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return getattr(store, "host", "")


def interface_towards(host: str) -> str:
    """"=NAME" of the interface that the route to `host` leaves by, or that has its address; "" if there is none."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))  # sends nothing
            own = probe.getsockname()[0]
            for _, name in socket.if_nameindex():
                try:
                    found = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                except OSError:  # it has no address
                    continue
                if socket.inet_ntoa(found[20:24]) == own:
                    return "=" + name
    except OSError:
        pass
    return ""
