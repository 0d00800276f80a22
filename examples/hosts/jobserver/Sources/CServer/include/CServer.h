// An HTTP/1.1 server on libmicrohttpd. Swift cannot call that library directly, because some of its functions are variadic.
#ifndef CSERVER_H
#define CSERVER_H

#include <stddef.h>

typedef struct cs_request cs_request;

/// Gets a request whose body is complete. Called on the server's thread, so it must not wait: any thread answers later with `cs_reply`.
typedef void (*cs_take)(void *context, cs_request *request);

/// The limits of clients, so that one of them cannot keep the others out.
typedef struct cs_limits {
    size_t body_bytes;
    unsigned connections;
    unsigned connections_of_address;
    unsigned idle_seconds;
} cs_limits;

/// Serves POST requests on a port of this machine, for as long as the process lives; 0 chooses a free port. Returns the port, or 0 on failure.
int cs_serve(int port, cs_limits limits, cs_take take, void *context);

const char *cs_path(const cs_request *request);
const char *cs_body(const cs_request *request, size_t *count);

/// Answers with a copy of the bytes. Call it once for each request, on any thread.
void cs_reply(cs_request *request, unsigned status, const void *bytes, size_t count);

#endif
