"""Ranks in processes of their own, for tests in Python.

    failed = ranks.run(2, work, seconds=60)     # a text, or "" where all is well

Each rank calls work(rank, peers). peers.share(value) gives every rank the value that rank 0 passes: bytes, such as a
unique id. peers.meet() returns when all ranks have called it. The parent loads nothing, so that each rank loads the
libraries by itself. A rank that is not done in time shows where it is, and ends.
"""

import faulthandler
import os
import signal
import socket
import sys
import traceback


class _Peers:
    def __init__(self, rank, pairs):
        self.rank = rank
        # Rank 0 has a connection to each of the others, these one to rank 0.
        self.connections = [to for _, to in pairs] if rank == 0 else [pairs[rank - 1][0]]

    def _read(self, connection, count):
        data = b""
        while len(data) < count:
            more = connection.recv(count - len(data))
            if not more:
                raise RuntimeError("a rank has ended")
            data += more
        return data

    def share(self, value=None):
        if self.rank == 0:
            for connection in self.connections:
                connection.sendall(len(value).to_bytes(4, "little") + value)
            return value
        return self._read(self.connections[0], int.from_bytes(self._read(self.connections[0], 4), "little"))

    def meet(self):
        if self.rank == 0:
            for connection in self.connections:
                self._read(connection, 1)
        else:
            self.connections[0].sendall(b"m")
        self.share(b"")


def _become(rank, pairs, work, seconds):
    code = 1
    try:
        faulthandler.dump_traceback_later(seconds, exit=True)
        for at, (mine, to) in enumerate(pairs):  # so that who reads sees the end of a rank 0 that died
            if rank != 0:
                to.close()
            if rank != at + 1:
                mine.close()
        work(rank, _Peers(rank, pairs))
        code = 0
    except BaseException:
        sys.stderr.write("rank %d: %s" % (rank, traceback.format_exc()))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run(count, work, seconds=60):
    pairs = [socket.socketpair() for _ in range(count - 1)]
    sys.stdout.flush()
    running = {}
    for rank in range(count):
        pid = os.fork()
        if pid == 0:
            _become(rank, pairs, work, seconds)
        running[pid] = rank
    for pair in pairs:
        pair[0].close()
        pair[1].close()
    ended = []
    while running:
        pid, status = os.wait()
        if pid in running and status != 0:
            how = os.waitstatus_to_exitcode(status)
            ended.append("rank %d ended with %s" % (running[pid], how if how >= 0 else signal.Signals(-how).name))
        running.pop(pid, None)
    return ", ".join(ended)
