#include "CTestSupport.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#endif
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER 1
#endif
#endif

bool has_address_sanitizer(void) {
#ifdef ADDRESS_SANITIZER
    return true;
#else
    return false;
#endif
}

bool has_thread_sanitizer(void) {
#ifdef THREAD_SANITIZER
    return true;
#else
    return false;
#endif
}

#ifdef THREAD_SANITIZER
// ThreadSanitizer does not see the slow path of Synchronization.Mutex, which is not compiled for it, and reports accesses of two threads
// that the mutex has ordered. These are the mangled names of the closures that LuaBindings passes to `withLock`; only they access the
// guarded value.
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) {
    return "race:s11LuaBindings0A9OperationC*7Mutable*Vz\n"
           "race:s11LuaBindings11ScriptTimerC*7Mutable*LLVz\n"
           "race:s11LuaBindings12ChildProcessC*7Mutable*LLVz\n"
           "race:s11LuaBindings8IOThreadC*5State*LLVz\n"
           "race:s11LuaBindings11RuntimeCoreC*6Shared33_*LLVz\n"
           "race:s11LuaBindings11RuntimeCoreC*8Failures33_*LLVz\n";
}
#endif
