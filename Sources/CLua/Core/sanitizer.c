// A workaround for ThreadSanitizer.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) && defined(__linux__)
#include <setjmp.h>

// Lua raises with `_longjmp`, or with `__longjmp_chk` under Debian's build options. ThreadSanitizer intercepts only `longjmp`. It would
// keep the frames that the others leave on its shadow call stack, and after 65,536 of them it would overwrite its own memory.
#define UNSEEN __attribute__((disable_sanitizer_instrumentation, noreturn))
void __longjmp_chk(jmp_buf target, int value);

UNSEEN void __longjmp_chk(jmp_buf target, int value) { longjmp(target, value); }
UNSEEN void _longjmp(jmp_buf target, int value) { longjmp(target, value); }
#endif
#endif
