#define _GNU_SOURCE  // accept4, ucred
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "CTerminal.h"

int ct_accept(int listener) {
    int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (connection < 0) return -1;
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid()) return connection;
    close(connection);
    errno = ECONNABORTED;
    return -1;
}
