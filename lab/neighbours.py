"""Neighbours on the fabric: the storage server, an inference server with clients, a mesh of probes.

`python -m lab.neighbours storage`, `... inference`, `... client ADDRESS EVERY_MS KILOBYTES`,
`... probe EVERY_MS ADDRESS...`: each runs in the namespace of its host until it is ended.
"""

from __future__ import annotations

import random
import socket
import socketserver
import struct
import sys
import threading
import time

STORAGE_PORT, INFERENCE_PORT, PROBE_PORT = 9000, 8000, 7000
PIECE = bytes(1 << 18)
PROBE_BYTES = 512


def take(connection: socket.socket, size: int) -> bytes:
    """Exactly so many bytes, of which only the first few are kept; empty at the end of the connection."""
    first = b""
    while size > 0:
        part = connection.recv(min(size, len(PIECE)))
        if not part:
            return b""
        size -= len(part)
        first = (first + part)[:16]
    return first


def give(connection: socket.socket, size: int) -> None:
    for begin in range(0, size, len(PIECE)):
        connection.sendall(PIECE[: min(len(PIECE), size - begin)])


class Storage(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while head := take(self.request, 9):
            size = struct.unpack("!Q", head[1:9])[0]
            if head[:1] == b"R":
                give(self.request, size)
            else:
                take(self.request, size)
                self.request.sendall(b".")


class Inference(socketserver.BaseRequestHandler):
    """A prompt comes at once, the answer in small pieces, token by token."""

    def handle(self) -> None:
        while head := take(self.request, 8):
            size = struct.unpack("!Q", head)[0]
            take(self.request, size)
            for _ in range(random.randint(5, 60)):
                self.request.sendall(bytes(random.randint(200, 2000)))
                time.sleep(0.02)
            self.request.sendall(b"\xff" * 8)


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while take(self.request, PROBE_BYTES):
            self.request.sendall(bytes(PROBE_BYTES))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64


def serve(handler: type[socketserver.BaseRequestHandler], port: int) -> None:
    Server(("0.0.0.0", port), handler).serve_forever()


def connect(address: str, port: int) -> socket.socket:
    for _ in range(50):
        try:
            return socket.create_connection((address, port), timeout=10)
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"{address}:{port} does not answer")


def ask(address: str, every_ms: int, kilobytes: int) -> None:
    connection = connect(address, INFERENCE_PORT)
    while True:
        size = int(random.uniform(0.2, 1.8) * kilobytes * 1000)
        connection.sendall(struct.pack("!Q", size))
        give(connection, size)
        tail = b""
        while not tail.endswith(b"\xff" * 8):
            part = connection.recv(1 << 16)
            if not part:
                return
            tail = (tail + part)[-16:]
        time.sleep(random.expovariate(1000 / every_ms))


def probe(every_ms: int, addresses: list[str]) -> None:
    threading.Thread(target=serve, args=(Echo, PROBE_PORT), daemon=True).start()
    connections = [connect(address, PROBE_PORT) for address in addresses]
    while True:
        for connection in connections:
            connection.sendall(bytes(PROBE_BYTES))
            take(connection, PROBE_BYTES)
        time.sleep(every_ms / 1000)


def main(arguments: list[str]) -> None:
    match arguments:
        case ["storage"]:
            serve(Storage, STORAGE_PORT)
        case ["inference"]:
            serve(Inference, INFERENCE_PORT)
        case ["client", address, every_ms, kilobytes]:
            ask(address, int(every_ms), int(kilobytes))
        case ["probe", every_ms, *addresses]:
            probe(int(every_ms), addresses)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
