#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "CTestSupport.h"

struct missing_page {
    int descriptor;
    char *address;
    size_t size;
};

struct missing_page *make_missing_page(void) {
    struct missing_page *page = malloc(sizeof *page);
    page->size = (size_t)sysconf(_SC_PAGESIZE);
    page->descriptor = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    page->address = mmap(NULL, page->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {
        .range = {.start = (unsigned long)page->address, .len = page->size}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (page->descriptor >= 0 && page->address != MAP_FAILED && ioctl(page->descriptor, UFFDIO_API, &api) == 0 &&
        ioctl(page->descriptor, UFFDIO_REGISTER, &range) == 0)
        return page;
    if (page->descriptor >= 0) close(page->descriptor);
    if (page->address != MAP_FAILED) munmap(page->address, page->size);
    free(page);
    return NULL;
}

const volatile char *address_of_page(const struct missing_page *page) { return page->address; }

void free_page(struct missing_page *page) {
    munmap(page->address, page->size);
    free(page);
}

void provide_page(struct missing_page *page) {
    struct uffdio_zeropage zero = {.range = {.start = (unsigned long)page->address, .len = page->size}};
    ioctl(page->descriptor, UFFDIO_ZEROPAGE, &zero);
    close(page->descriptor);
}
