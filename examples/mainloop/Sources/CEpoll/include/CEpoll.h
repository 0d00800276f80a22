// epoll and timerfd are Linux's own; the Glibc module does not have them.
#ifndef CEPOLL_H
#define CEPOLL_H

#include <sys/epoll.h>
#include <sys/timerfd.h>

#endif
