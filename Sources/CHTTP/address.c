#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "CHTTP.h"

typedef union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} address;

// Returns the size of the parsed address; 0 if the text is no address.
static socklen_t parse(const char *text, address *parsed) {
    *parsed = (address){0};
    if (inet_pton(AF_INET, text, &parsed->v4.sin_addr) == 1) {
        parsed->v4.sin_family = AF_INET;
        return sizeof parsed->v4;
    }
    if (inet_pton(AF_INET6, text, &parsed->v6.sin6_addr) == 1) {
        parsed->v6.sin6_family = AF_INET6;
        return sizeof parsed->v6;
    }
    return 0;
}

bool ch_is_address(const char *text) {
    address parsed;
    return parse(text, &parsed) > 0;
}

bool ch_is_loopback(const char *text) {
    address parsed;
    if (parse(text, &parsed) == 0) return false;
    if (parsed.any.sa_family == AF_INET) return ntohl(parsed.v4.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&parsed.v6.sin6_addr);
}

int ch_listen(const char *text, int port) {
    address parsed;
    socklen_t size = parse(text, &parsed);
    if (size == 0) return -EINVAL;
    // Both kinds of address have the port at the same place.
    parsed.v4.sin_port = htons((uint16_t)port);
    int listener = socket(parsed.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0) return -errno;
    int on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, &parsed.any, size) == 0 && listen(listener, 16) == 0) return listener;
    int error = errno;
    close(listener);
    return -error;
}

int ch_port(int listener) {
    address bound = {0};
    socklen_t size = sizeof bound;
    getsockname(listener, &bound.any, &size);
    return ntohs(bound.v4.sin_port);
}
