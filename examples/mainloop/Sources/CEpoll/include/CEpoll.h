// Swift's Glibc module lacks epoll and timerfd, which exist only on Linux.
#ifndef CEPOLL_H
#define CEPOLL_H

#include <sys/epoll.h>
#include <sys/timerfd.h>

#endif
