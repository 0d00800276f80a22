"""A server of HTTP for the tests of opscript.fetch. Prints its port, and then a line for each event that a test waits for.

    server.py [CERTIFICATE KEY]

Each path is a behaviour, which is described at its method. Ends when its standard input does.
"""
import http.server
import os
import socket
import ssl
import sys
import threading

lock = threading.Lock()
counts = {}
running = most = 0
released = threading.Event()
kept = []


def say(text):
    with lock:
        print(text, flush=True)


def count(key):
    with lock:
        counts[key] = counts.get(key, 0) + 1
        return counts[key]


def block(size):
    return (b"0123456789abcdef" * (size // 16 + 1))[:size]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def send(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_any(self):
        parts = self.path.split("?")[0].strip("/").split("/")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        getattr(self, "do_" + parts[0], self.do_missing)(parts[1:], body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = handle_any

    def do_missing(self, *_):
        self.send(404, b"there is no such page\nsecond line\n", Content_Type="text/plain")

    # The request itself: its method, its body, and its headers in the order of their names.
    def do_echo(self, _, body):
        lines = sorted(f"{name.lower()}: {value}" for name, value in self.headers.items())
        text = f"{self.command} {self.path}\n".encode() + body + b"\n" + "\n".join(lines).encode()
        self.send(200, text, Content_Type="text/plain", X_Two="one", x_two="two")

    def do_status(self, parts, _):
        self.send(int(parts[0]), b"" if parts[0] == "304" else b'{"problem": "as asked"}', Content_Type="application/json")

    # To a path of this server, or to another one: /redirect/STATUS/to/echo, /redirect/STATUS?URL
    def do_redirect(self, parts, _):
        query = self.path.split("?")
        self.send(int(parts[0]), Location=query[1] if len(query) > 1 else "/" + "/".join(parts[2:]))

    def do_loop(self, *_):
        self.send(302, Location="/loop")

    # /fail/NAME/TIMES/STATUS[/RETRY-AFTER]: fails so often, and says so if it names a time
    def do_fail(self, parts, _):
        number = count(parts[0])
        if number > int(parts[1]):
            return self.send(200, str(number).encode())
        headers = {"Retry_After": parts[3]} if len(parts) > 3 else {}
        if headers:
            say("fails " + parts[0])
        self.send(int(parts[2]), b"", **headers)

    # /drop/NAME/TIMES: closes the connection before a response so often
    def do_drop(self, parts, _):
        number = count(parts[0])
        if number > int(parts[1]):
            return self.send(200, str(number).encode())
        self.close_connection = True

    # /hang/headers, /hang/body: says so, and hangs until the server ends
    def do_hang(self, parts, _):
        if parts[0] == "body":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"the beginning")
        say("hangs in " + parts[0])
        released.wait()

    # /part/NAME/SIZE/KIND: breaks off after half of the body once; says which parts it was asked for. KIND: etag, date, weak, none, changed or wrong.
    def do_part(self, parts, _):
        name, size, kind = parts[0], int(parts[1]), parts[2]
        number, body = count(name), block(int(parts[1]))
        tag = {"etag": '"one"', "weak": 'W/"one"', "changed": f'"{number}"', "wrong": '"one"'}.get(kind)
        say(f"part {self.headers.get('Range')} {self.headers.get('If-Range')}")
        date = "Sun, 01 Nov 2026 08:49:37 GMT"
        start = 0
        if self.headers.get("Range") and self.headers.get("If-Range") in (tag or date, date):
            start = int(self.headers["Range"][6:-1])
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start + (kind == 'wrong')}-{size - 1}/{size}")
        if tag:
            self.send_header("ETag", tag)
        if kind == "date":
            self.send_header("Last-Modified", date)
        self.send_header("Content-Length", str(size - start))
        self.end_headers()
        if number > 1:
            return self.wfile.write(body[start:])
        self.wfile.write(body[: size // 2])
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    # The port of a socket to which no further connection is made: its queue is full.
    def do_full(self, *_):
        listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        clients = []
        for _ in range(3):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
            clients.append(client)
        kept.append((listener, clients))
        self.send(200, str(listener.getsockname()[1]).encode())

    # /large/SIZE: a body of this size
    def do_large(self, parts, _):
        left = int(parts[0])
        self.send_response(200)
        self.send_header("Content-Length", str(left))
        self.end_headers()
        piece = block(1 << 20)
        while left > 0:
            left -= self.wfile.write(piece[:left])

    # Answers when as many requests run as /together/NUMBER asks for, or any request after that; the body is the most that have run.
    def do_together(self, parts, _):
        global running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == int(parts[0]):
                released.set()
        released.wait()
        with lock:
            running -= 1
        self.send(200, str(most).encode())


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass


server = Server(("127.0.0.1", 0), Handler)
if len(sys.argv) > 2:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True)
say(server.server_address[1])
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
os._exit(0)
