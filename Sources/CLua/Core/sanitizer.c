// What ThreadSanitizer lacks.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) && defined(__linux__)
#include <setjmp.h>

// Lua raises by `_longjmp`, or by what that is with Debian's options; of ways out of a function ThreadSanitizer notices `longjmp` alone. On
// its own stack of calls those that were left so would stay, and after 65,536 of them it would write beyond the end, into other memory of
// its own.
#define UNSEEN __attribute__((disable_sanitizer_instrumentation, noreturn))
void __longjmp_chk(jmp_buf target, int value);

UNSEEN void __longjmp_chk(jmp_buf target, int value) { longjmp(target, value); }
UNSEEN void _longjmp(jmp_buf target, int value) { longjmp(target, value); }
#endif
#endif
