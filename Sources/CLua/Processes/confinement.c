#define _GNU_SOURCE  // syscall
#include "confinement.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "confinement.c does not know the system calls of this architecture"
#endif

// The calls of a Lua state that can reach no file, no other process and no network: memory, time, its own signals, and the open descriptors.
// Any other call fails with EPERM.
static const unsigned short basic_calls[] = {
    SYS_read, SYS_write, SYS_writev, SYS_recvfrom, SYS_sendmsg, SYS_close, SYS_lseek, SYS_fstat, SYS_ppoll,
    SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise,
    SYS_futex, SYS_sched_yield, SYS_restart_syscall, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack,
    SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_times, SYS_getrusage,
    SYS_rseq, SYS_set_robust_list,  // a thread that has just been started makes these calls
    SYS_getpid, SYS_gettid, SYS_getrandom, SYS_exit, SYS_exit_group,
#ifdef SYS_time
    SYS_time,
#endif
#ifdef SYS_getrlimit
    SYS_getrlimit, SYS_setrlimit,
#endif
};

// The calls that files need.
static const unsigned short file_calls[] = {
    SYS_openat, SYS_newfstatat, SYS_statx, SYS_faccessat, SYS_readlinkat, SYS_unlinkat, SYS_renameat2, SYS_mkdirat, SYS_getcwd, SYS_chdir,
    SYS_getdents64, SYS_ftruncate, SYS_fsync, SYS_fcntl, SYS_ioctl, SYS_pread64, SYS_pwrite64, SYS_dup, SYS_dup3, SYS_umask,
    SYS_fadvise64,
#ifdef SYS_open
    SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_unlink, SYS_rename, SYS_rmdir, SYS_mkdir, SYS_dup2,
#endif
};

enum { BASIC_COUNT = sizeof basic_calls / sizeof *basic_calls, FILE_COUNT = sizeof file_calls / sizeof *file_calls };

typedef struct filter {
    struct sock_filter code[2 * (BASIC_COUNT + FILE_COUNT) + 20];
    unsigned short count;
} filter;

static void add(filter *filter, struct sock_filter instruction) { filter->code[filter->count++] = instruction; }

static void allow(filter *filter, const unsigned short *calls, size_t count) {
    for (size_t i = 0; i < count; i++) {
        add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1));
        add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
}

// Allows a call whose first argument, the number of a process, is `process`. The kernel ignores the upper half of the argument.
static void allow_for(filter *filter, unsigned short call, uint32_t process) {
    const unsigned argument = offsetof(struct seccomp_data, args[0]);  // its lower half: the byte order is little-endian
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4));
    add(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument));
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, process, 1, 0));
    add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
    add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
}

// Call numbers of another architecture mean other calls, so they end the process. The numbers of x32 are in no list.
static int filter_calls(bool allows_files) {
    filter filter = {.count = 0};
    add(&filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
    add(&filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0));
    add(&filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    add(&filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    allow(&filter, basic_calls, BASIC_COUNT);
    // Signals to the process itself, and its own limits.
    allow_for(&filter, SYS_tgkill, (uint32_t)getpid());
    allow_for(&filter, SYS_prlimit64, 0);
    if (allows_files) allow(&filter, file_calls, FILE_COUNT);
    add(&filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
    struct sock_fprog program = {filter.count, filter.code};
    long status = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    return status == 0 ? 0 : status > 0 ? EAGAIN : errno;
}

static int limit(int resource, rlim_t most) {
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0) return errno;
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < most) most = limit.rlim_max;
    limit.rlim_cur = limit.rlim_max = most;
    return setrlimit(resource, &limit) == 0 ? 0 : errno;
}

// The bytes of address space that the process has; 0 if the kernel does not say so.
static size_t address_space(void) {
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;
    if (file == NULL) return 0;
    if (fscanf(file, "%lu", &pages) != 1) pages = 0;
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

int clua_confine(const clua_confinement *confinement) {
    int error = limit(RLIMIT_CORE, 0);
    if (error == 0 && confinement->more_bytes > 0) {
        size_t present = address_space();
        if (present > 0) error = limit(RLIMIT_AS, present + confinement->more_bytes);
    }
    if (error == 0 && !confinement->allows_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) error = errno;
    if (confinement->allows_programs || error != 0) return error;
    tzset();  // `os.date` would read the file of the time zone later
    error = limit(RLIMIT_NPROC, 0);
    if (error == 0 && !confinement->allows_files) error = limit(RLIMIT_FSIZE, 0);
    if (error == 0 && !confinement->allows_files) error = limit(RLIMIT_NOFILE, 0);
    return error != 0 ? error : filter_calls(confinement->allows_files);
}

void clua_limit_processor_time(unsigned seconds) {
    struct rlimit limit;
    struct timespec used;
    if (getrlimit(RLIMIT_CPU, &limit) != 0 || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) != 0) return;
    limit.rlim_cur = seconds == 0 ? limit.rlim_max : (rlim_t)used.tv_sec + 1 + seconds;
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_cur > limit.rlim_max) limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CPU, &limit);
}
