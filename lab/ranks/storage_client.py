"""A rank's side of the storage server: the data of the next step are read while this one runs, checkpoints at once.

Protocol: one byte R or W and eight bytes of length; the server answers R with that many bytes, takes as many after W
and answers with one byte.
"""

from __future__ import annotations

import socket
import struct
import threading

__all__ = ["StorageClient"]

PORT = 9000
PIECE = 1 << 18


class StorageClient:
    def __init__(self, address: str, data_kb: int) -> None:
        self._socket = socket.create_connection((address, PORT), timeout=60) if address else None
        self._data_bytes = data_kb * 1000
        self._reading: threading.Thread | None = None

    @property
    def open(self) -> bool:
        return self._socket is not None

    def ask_for_data(self) -> None:
        if self._socket is not None and self._data_bytes:
            self._reading = threading.Thread(target=self._read, args=(self._data_bytes,), daemon=True)
            self._reading.start()

    def wait_for_data(self) -> None:
        if self._reading is not None:
            self._reading.join()
            self._reading = None

    def write(self, size: int) -> None:
        if self._socket is None:
            return
        self.wait_for_data()
        self._socket.sendall(b"W" + struct.pack("!Q", size))
        piece = bytes(PIECE)
        for begin in range(0, size, PIECE):
            self._socket.sendall(piece[: min(PIECE, size - begin)])
        self._socket.recv(1)

    def _read(self, size: int) -> None:
        if self._socket is None:
            return
        self._socket.sendall(b"R" + struct.pack("!Q", size))
        while size > 0:
            size -= len(self._socket.recv(min(size, PIECE))) or size
