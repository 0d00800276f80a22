#include "CServer.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct server {
    cs_limits limits;
    cs_take take;
    void *context;
} server;

struct cs_request {
    struct MHD_Connection *connection;
    char *path;
    char *body;
    size_t count, capacity;
    bool is_too_large, is_taken;
    unsigned status;
    struct MHD_Response *response;  // set before the connection is resumed
};

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *line) {
    struct MHD_Response *response = MHD_create_response_from_buffer(strlen(line), (void *)line, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(response, "Content-Type", "application/jsonl");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static void append(cs_request *request, const char *bytes, size_t count, size_t limit) {
    if (request->is_too_large || count > limit - request->count) {
        request->is_too_large = true;
        return;
    }
    if (request->count + count > request->capacity) {
        size_t capacity = 2 * (request->count + count);
        char *body = realloc(request->body, capacity);
        if (body == NULL) {
            request->is_too_large = true;
            return;
        }
        request->body = body;
        request->capacity = capacity;
    }
    memcpy(request->body + request->count, bytes, count);
    request->count += count;
}

// Called with the header, with each piece of the body, with its end, and once more after the connection was resumed.
static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path, const char *method, const char *version,
                              const char *bytes, size_t *count, void **state) {
    (void)version;
    server *server = context;
    cs_request *request = *state;
    if (request == NULL) {
        request = calloc(1, sizeof *request);
        if (request == NULL) return MHD_NO;
        request->connection = connection;
        request->path = strdup(path);
        *state = request;
        return request->path != NULL ? MHD_YES : MHD_NO;
    }
    if (*count > 0) {
        append(request, bytes, *count, server->limits.body_bytes);
        *count = 0;
        return MHD_YES;
    }
    if (request->response != NULL) return MHD_queue_response(connection, request->status, request->response);
    if (strcmp(method, "POST") != 0)
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "{\"error\":{\"kind\":\"request\",\"message\":\"send a script with POST\"}}\n");
    if (request->is_too_large)
        return refuse(connection, MHD_HTTP_CONTENT_TOO_LARGE, "{\"error\":{\"kind\":\"request\",\"message\":\"the script is too long\"}}\n");
    if (!request->is_taken) {
        request->is_taken = true;
        MHD_suspend_connection(connection);
        server->take(server->context, request);
    }
    return MHD_YES;
}

static void completed(void *context, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code) {
    (void)context, (void)connection, (void)code;
    cs_request *request = *state;
    if (request == NULL) return;
    if (request->response != NULL) MHD_destroy_response(request->response);
    free(request->path);
    free(request->body);
    free(request);
    *state = NULL;
}

int cs_serve(int port, cs_limits limits, cs_take take, void *context) {
    server *made = malloc(sizeof *made);
    if (made == NULL) return 0;
    *made = (server){limits, take, context};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, (uint16_t)port, NULL, NULL, handle, made, MHD_OPTION_SOCK_ADDR, &address,
        MHD_OPTION_NOTIFY_COMPLETED, completed, NULL, MHD_OPTION_CONNECTION_LIMIT, limits.connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        limits.connections_of_address, MHD_OPTION_CONNECTION_TIMEOUT, limits.idle_seconds, MHD_OPTION_LISTEN_BACKLOG_SIZE, 1024u, MHD_OPTION_END);
    if (daemon == NULL) return 0;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info != NULL ? info->port : port;
}

const char *cs_path(const cs_request *request) { return request->path; }

const char *cs_body(const cs_request *request, size_t *count) {
    *count = request->count;
    return request->body;
}

void cs_reply(cs_request *request, unsigned status, const void *bytes, size_t count) {
    request->status = status;
    request->response = MHD_create_response_from_buffer(count, (void *)bytes, MHD_RESPMEM_MUST_COPY);
    if (request->response != NULL) MHD_add_response_header(request->response, "Content-Type", "application/jsonl");
    MHD_resume_connection(request->connection);
}
