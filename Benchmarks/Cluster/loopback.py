# Measures TCP from one process to another on this machine: `loopback.py MEGABYTES` prints MB a second. Like iperf3, it writes
# the same 128 KB again and again.
import json
import os
import socket
import sys
import time

SIZE = 128 * 1024


def receive(listener):
    connection, _ = listener.accept()
    buffer = bytearray(SIZE)
    while connection.recv_into(buffer):
        pass
    connection.sendall(b"x")
    os._exit(0)


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        receive(listener)
    count = int(sys.argv[1]) * 1_000_000 // SIZE
    data = os.urandom(SIZE)
    with socket.create_connection(listener.getsockname()) as connection:
        start = time.perf_counter()
        for _ in range(count):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b"x"
        elapsed = time.perf_counter() - start
    os.waitpid(child, 0)
    print(json.dumps({"rate": count * SIZE / 1e6 / elapsed}))


if __name__ == "__main__":
    main()
