#define _GNU_SOURCE
#include "CHTTP.h"

#include <limits.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CONNECTIONS = 32, MOST_FROM_ONE_ADDRESS = 16, IDLE_SECONDS = 30, HEADER_SECONDS = 10, BLOCK = 1 << 16 };

// A connection. `due` is the time, in milliseconds, until which the headers of its request must be complete; LLONG_MAX while it has one.
typedef struct client {
    int socket;
    long long due;
    struct client *next, **link;
} client;

// Published bytes. Each stream that is sending them has a reference.
typedef struct message {
    size_t references, count;
    char bytes[];
} message;

struct ch_request {
    ch_server *server;
    struct MHD_Connection *connection;
    const char *method, *path;
    ch_request *next, **link; // the list of requests
    bool is_stream, is_suspended, has_waited, is_answered;
    // The fields of a stream: the message in transfer, the count of its bytes that were sent, and the number of the last message that was
    // begun.
    message *sending;
    size_t sent;
    unsigned long number;
    bool is_new;
};

struct ch_server {
    struct MHD_Daemon *daemon;
    ch_answer answer;
    void *context;
    int event, epoll;
    ch_request *requests;
    client *clients;
    message *latest;
    unsigned long number; // of the latest message
    bool is_stopping, has_resumed;
};

static void release(message *message) {
    if (message != NULL && --message->references == 0) free(message);
}

static void suspend(ch_request *request) {
    request->is_suspended = true;
    MHD_suspend_connection(request->connection);
}

static void resume(ch_request *request) {
    if (!request->is_suspended) return;
    request->is_suspended = false;
    request->server->has_resumed = true;
    MHD_resume_connection(request->connection);
}

static long long now_in_milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

// MARK: the library's callbacks

static void notice_connection(void *context, struct MHD_Connection *connection, void **state, enum MHD_ConnectionNotificationCode code) {
    ch_server *server = context;
    client *client = *state;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        int socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        client = *state = calloc(1, sizeof *client);
        if (client == NULL) return;
        *client = (struct client){socket, now_in_milliseconds() + HEADER_SECONDS * 1000, server->clients, &server->clients};
        if (client->next != NULL) client->next->link = &client->next;
        server->clients = client;
    } else if (client != NULL) {
        *client->link = client->next;
        if (client->next != NULL) client->next->link = client->link;
        free(client);
    }
}

static void set_due(struct MHD_Connection *connection, long long due) {
    client *client = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    if (client != NULL) client->due = due;
}

static enum MHD_Result handle(
    void *context, struct MHD_Connection *connection, const char *url, const char *method, const char *version, const char *data,
    size_t *count, void **state) {
    (void)version, (void)data, (void)count;
    ch_server *server = context;
    ch_request *request = *state;
    if (request == NULL) {
        request = calloc(1, sizeof *request);
        if (request == NULL) return MHD_NO;
        *request = (ch_request){.server = server, .connection = connection, .method = method, .path = url, .next = server->requests};
        request->link = &server->requests;
        if (request->next != NULL) request->next->link = &request->next;
        server->requests = *state = request;
        set_due(connection, LLONG_MAX);
    }
    // The host answers before the library reads a body: only GET gets more than an error, and it has no body.
    if (!request->is_answered) server->answer(server->context, request);
    return request->is_answered || request->is_suspended ? MHD_YES : MHD_NO;
}

static void complete(void *context, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code) {
    (void)context, (void)code;
    ch_request *request = *state;
    if (request == NULL) return;
    set_due(connection, now_in_milliseconds() + IDLE_SECONDS * 1000);
    *request->link = request->next;
    if (request->next != NULL) request->next->link = request->link;
    release(request->sending);
    free(request);
    *state = NULL;
}

static ssize_t read_stream(void *context, uint64_t position, char *buffer, size_t room) {
    (void)position;
    ch_request *request = context;
    ch_server *server = request->server;
    if (request->sending == NULL) {
        if (request->number == server->number) {
            if (server->is_stopping) return MHD_CONTENT_READER_END_OF_STREAM;
            suspend(request);
            return 0;
        }
        request->sending = server->latest;
        request->sending->references += 1;
        request->number = server->number;
        request->sent = 0;
    }
    size_t left = request->sending->count - request->sent;
    size_t count = left < room ? left : room;
    memcpy(buffer, request->sending->bytes + request->sent, count);
    request->sent += count;
    if (count == left) {
        release(request->sending);
        request->sending = NULL;
    }
    return (ssize_t)count;
}

// MARK: the server

// A client that is gone raises no SIGPIPE: the library uses MSG_NOSIGNAL, except for the bytes of files, which no response here has.
ch_server *ch_start(int listener, ch_answer answer, void *context) {
    ch_server *server = calloc(1, sizeof *server);
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server == NULL || event < 0) goto failed;
    *server = (ch_server){.answer = answer, .context = context, .event = event};
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle, server, MHD_OPTION_LISTEN_SOCKET, listener,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS, MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)MOST_FROM_ONE_ADDRESS,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_NOTIFY_CONNECTION, notice_connection, server,
        MHD_OPTION_NOTIFY_COMPLETED, complete, NULL, MHD_OPTION_END);
    if (server->daemon == NULL) goto failed;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    server->epoll = info->epoll_fd;
    return server;
failed:
    close(listener);
    if (event >= 0) close(event);
    free(server);
    return NULL;
}

// Ends the connections that have sent no complete request in time: the library's own limit begins again with each byte. Returns the milliseconds
// until the next one is late, or `milliseconds` if that is sooner.
static int end_late_clients(ch_server *server, int milliseconds) {
    long long now = now_in_milliseconds();
    for (const client *client = server->clients; client != NULL; client = client->next) {
        if (client->due <= now) shutdown(client->socket, SHUT_RDWR);
        else if (client->due - now < (milliseconds < 0 ? INT_MAX : milliseconds)) milliseconds = (int)(client->due - now);
    }
    return milliseconds;
}

void ch_run(ch_server *server, int milliseconds) {
    milliseconds = end_late_clients(server, milliseconds);
    // The library looks at resumed connections only when it runs.
    if (server->has_resumed) milliseconds = 0;
    server->has_resumed = false;
    MHD_UNSIGNED_LONG_LONG limit;
    if (MHD_get_timeout(server->daemon, &limit) == MHD_YES && (milliseconds < 0 || limit < (unsigned)milliseconds)) milliseconds = (int)limit;
    struct pollfd events[] = {{.fd = server->epoll, .events = POLLIN}, {.fd = server->event, .events = POLLIN}};
    poll(events, 2, milliseconds);
    eventfd_t count;
    eventfd_read(server->event, &count);
    MHD_run(server->daemon);
}

void ch_wake(ch_server *server) { eventfd_write(server->event, 1); }

void ch_stop(ch_server *server, int milliseconds) {
    server->is_stopping = true;
    for (ch_request *request = server->requests; request != NULL; request = request->next) resume(request);
    long long end = now_in_milliseconds() + milliseconds;
    for (long long left = milliseconds; left >= 0; left = end - now_in_milliseconds()) {
        ch_run(server, (int)left);
        if (server->requests == NULL) break;
    }
    MHD_stop_daemon(server->daemon);
    release(server->latest);
}

void ch_free(ch_server *server) {
    close(server->event);
    free(server);
}

// MARK: requests

const char *ch_method(const ch_request *request) { return request->method; }
const char *ch_path(const ch_request *request) { return request->path; }

const char *ch_header(const ch_request *request, const char *name) {
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

const char *ch_argument(const ch_request *request, const char *name) {
    return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

static void send_response(ch_request *request, unsigned status, const char *type, struct MHD_Response *response) {
    if (response == NULL) return;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "Content-Security-Policy", "frame-ancestors 'none'");
    MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(response, "Allow", "GET");
    // `handle` closes the connection of a request without an answer.
    request->is_answered = MHD_queue_response(request->connection, status, response) == MHD_YES;
    MHD_destroy_response(response);
}

void ch_reply(ch_request *request, unsigned status, const char *type, const void *bytes, size_t count) {
    send_response(request, status, type, MHD_create_response_from_buffer(count, (void *)bytes, MHD_RESPMEM_MUST_COPY));
}

void ch_wait(ch_request *request) {
    // A stopping server would never resume it.
    if (request->server->is_stopping) return ch_reply(request, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain", "", 0);
    request->has_waited = true;
    suspend(request);
}

bool ch_has_waited(const ch_request *request) { return request->has_waited; }

void ch_stream(ch_request *request) {
    request->is_stream = request->is_new = true;
    request->number = request->server->number;
    send_response(request, MHD_HTTP_OK, "text/event-stream", MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, request, NULL));
}

// MARK: the waits of the clients

ch_demand ch_current_demand(const ch_server *server) {
    ch_demand demand = {0};
    for (const ch_request *request = server->requests; request != NULL; request = request->next) {
        if (request->is_stream) demand.streams += 1;
        if (request->is_stream ? request->is_new : request->is_suspended) demand.is_urgent = true;
    }
    return demand;
}

void ch_publish(ch_server *server, const void *bytes, size_t count) {
    message *message = malloc(sizeof *message + count);
    if (message == NULL) return;
    message->references = 1;
    message->count = count;
    memcpy(message->bytes, bytes, count);
    release(server->latest);
    server->latest = message;
    server->number += 1;
    for (ch_request *request = server->requests; request != NULL; request = request->next) {
        if (!request->is_stream) continue;
        request->is_new = false;
        resume(request);
    }
}

void ch_resume(ch_server *server) {
    for (ch_request *request = server->requests; request != NULL; request = request->next) {
        if (!request->is_stream) resume(request);
    }
}
