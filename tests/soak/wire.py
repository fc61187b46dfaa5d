# SPDX-License-Identifier: Apache-2.0
"""Two hosts that this machine plays, and the wire between them, which loses, delays, repeats,
reorders and damages packets. Each host is a network namespace with a TUN device; a thread here
carries packets from one to the other. Needs root, `ip` (iproute2) and /dev/net/tun."""
import collections
import fcntl
import heapq
import os
import random
import select
import shutil
import socket
import struct
import subprocess
import threading
import time

ADDRESSES = ("10.213.0.1", "10.213.0.2")
KINDS = ("dropped", "delayed", "duplicated", "reordered", "corrupted")
DEVICE = "ccwire"

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000


class Unable(Exception):
    """This machine cannot have namespaces, or no such devices."""


def ip(*words):
    made = subprocess.run(["ip", *words], capture_output=True, text=True)
    if made.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {made.stderr.strip()}")


def place_of(packet):
    """The ends of a TCP packet over IPv4, as text."""
    if len(packet) < 24 or packet[0] != 0x45:
        return "other"
    ports = struct.unpack("!HH", packet[20:24])
    return (f"tcp {socket.inet_ntoa(packet[12:16])}:{ports[0]}>"
            f"{socket.inet_ntoa(packet[16:20])}:{ports[1]}")


class Wire:
    """A context manager that sets it up. `spoil` and `heal` switch faults on and off."""

    def __init__(self):
        if not shutil.which("ip"):
            raise Unable("no ip command (iproute2)")
        self.names = [f"ccwire{os.getpid()}{side}" for side in "ab"]
        self.ends, self.made = [], 0
        self.lock = threading.Lock()
        self.rates, self.draw, self.log = {}, random.Random(), None  # guarded by lock
        self.counts = collections.Counter()                          # guarded by lock
        self.late = []  # a heap of (when, number, end, packet); the thread's own
        self.ending = False

    def __enter__(self):
        try:
            for name, address in zip(self.names, ADDRESSES):
                ip("netns", "add", name)
                self.made += 1
                self.plug_in(name, address)
        except OSError as error:
            self.unplug()
            raise Unable(error) from error
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()
        return self

    def plug_in(self, name, address):
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        self.ends.append(end)
        device = f"cc{os.getpid()}{len(self.ends)}"
        fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
        # The descriptor stays the device's other end wherever the device is moved.
        ip("link", "set", device, "netns", name)
        ip("-n", name, "link", "set", device, "name", DEVICE)
        ip("-n", name, "addr", "add", f"{address}/24", "dev", DEVICE)
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "link", "set", DEVICE, "up")

    def __exit__(self, *_):
        self.ending = True
        self.thread.join()
        self.unplug()

    def unplug(self):
        for end in self.ends:
            os.close(end)
        for name in self.names[:self.made]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def spoil(self, rates, seed, log):
        """Sets the rate of each kind of fault, per 1000 packets."""
        with self.lock:
            self.rates, self.draw, self.log = rates, random.Random(seed), open(log, "w")
            self.counts.clear()

    def heal(self):
        """Ends the faults; returns how many there were of each kind."""
        with self.lock:
            self.rates = {}
            if self.log:
                self.log.close()
            self.log = None
            return collections.Counter(self.counts)

    def carry(self):
        number = 0
        while not self.ending:
            wait = 0.2
            if self.late:
                wait = max(0.0, min(wait, self.late[0][0] - time.monotonic()))
            ready, _, _ = select.select(self.ends, [], [], wait)
            for end in ready:
                other = self.ends[1 - self.ends.index(end)]
                try:
                    packet = os.read(end, 65536)
                except BlockingIOError:
                    continue
                with self.lock:
                    fates = self.fates(packet)
                for after, data in fates:
                    number += 1
                    heapq.heappush(self.late, (time.monotonic() + after, number, other, data))
            while self.late and self.late[0][0] <= time.monotonic():
                _, _, end, packet = heapq.heappop(self.late)
                try:
                    os.write(end, packet)
                except OSError:
                    pass  # the queue is full, so one more packet is lost

    def fates(self, packet):
        """The fate of a packet: (seconds until then, packet) for each that arrives."""
        happens = [kind for kind in KINDS
                   if self.rates.get(kind) and self.draw.random() * 1000 < self.rates[kind]]
        # One fault at a time, so that each counted one has had its effect.
        if not happens:
            return [(0.0, packet)]
        kind = self.draw.choice(happens)
        self.counts[kind] += 1
        self.log.write(f"{kind} - {place_of(packet)} {len(packet)} bytes\n")
        if kind == "dropped":
            return []
        if kind == "delayed":
            return [(self.draw.uniform(0.001, 0.05), packet)]
        if kind == "duplicated":
            return [(0.0, packet), (self.draw.uniform(0, 0.01), packet)]
        if kind == "reordered":
            return [(0.002, packet)]  # packets that arrive meanwhile overtake it
        spoiled = bytearray(packet)
        spoiled[self.draw.randrange(min(20, len(spoiled) - 1), len(spoiled))] ^= \
            1 << self.draw.randrange(8)
        return [(0.0, bytes(spoiled))]
