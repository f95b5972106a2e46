"""HTTP servers of rows: the standard library's, on a port of 127.0.0.1 that is free."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    disable_nagle_algorithm = True  # the default of other servers

    def body(self):
        return self.rfile.read(int(self.headers["Content-Length"]))

    def answer(self, *parts, **headers):
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(sum(memoryview(p).nbytes for p in parts)))
        self.end_headers()
        for part in parts:
            self.wfile.write(part)

    def log_message(self, format, *args):
        pass


def start(handler):
    """Returns a server that answers requests in threads of its own."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    return http
