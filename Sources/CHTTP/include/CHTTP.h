// A small HTTP server on libmicrohttpd. Swift cannot call that library's variadic functions.
//
// The server has no thread. The host calls `ch_run` in a loop. This call reads requests, has the host answer them, and writes answers as
// far as the sockets take them. So a client that does not read delays no other. All functions except `ch_wake` are for that one thread.
#ifndef CHTTP_H
#define CHTTP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ch_server ch_server;
typedef struct ch_request ch_request;

/// Answers a request. Calls one of `ch_reply`, `ch_wait` and `ch_stream`.
typedef void (*ch_answer)(void *context, ch_request *request);

// MARK: addresses

/// Whether a text is a numeric address, as 127.0.0.1 or ::1, and whether it is one of this machine only.
bool ch_is_address(const char *text);
bool ch_is_loopback(const char *text);

/// Opens a socket that listens at a numeric address; 0 chooses a free port. Returns a negated error number on failure.
int ch_listen(const char *address, int port);

/// The port of a listening socket.
int ch_port(int listener);

// MARK: the server

/// Serves the connections of a listening socket, which then belongs to the server. Returns NULL if the system refuses; the socket is then
/// closed.
ch_server *ch_start(int listener, ch_answer answer, void *context);

/// Waits for an event, at most so many milliseconds (-1: no limit), and handles it.
void ch_run(ch_server *server, int milliseconds);

/// Makes `ch_run` return. From any thread, until `ch_free`.
void ch_wake(ch_server *server);

/// Sends the rest of all streams, for at most so many milliseconds, and closes all connections. Only `ch_wake` and `ch_free` may be called
/// after it.
void ch_stop(ch_server *server, int milliseconds);

void ch_free(ch_server *server);

// MARK: requests

const char *ch_method(const ch_request *request);
const char *ch_path(const ch_request *request);

/// The value of a header or of an argument behind the path's question mark; NULL if it is missing. Valid until the request is answered.
const char *ch_header(const ch_request *request, const char *name);
const char *ch_argument(const ch_request *request, const char *name);

/// Answers with a status and a copy of the bytes.
void ch_reply(ch_request *request, unsigned status, const char *type, const void *bytes, size_t count);

/// Leaves the request unanswered until `ch_resume`, which asks the host again.
void ch_wait(ch_request *request);

/// Whether the host has called `ch_wait` for this request.
bool ch_has_waited(const ch_request *request);

/// Answers with an endless stream of server-sent events: the bytes of each later `ch_publish`. A client that is slow misses some of them.
void ch_stream(ch_request *request);

// MARK: the waits of the clients

/// The present waits of requests.
typedef struct ch_demand {
    /// A request waits, or a stream has not sent its first message yet.
    bool is_urgent;
    /// The number of streams.
    int streams;
} ch_demand;

ch_demand ch_current_demand(const ch_server *server);

/// Sends a copy of the bytes, which are whole events, to all streams.
void ch_publish(ch_server *server, const void *bytes, size_t count);

/// Makes the server ask the host again about all requests that wait.
void ch_resume(ch_server *server);

#endif
