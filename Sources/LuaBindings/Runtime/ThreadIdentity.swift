#if canImport(Glibc)
    import Glibc
#endif

/// The identity of a thread, for an atomic variable. No thread has the identity 0.
enum ThreadIdentity {
    static var current: UInt { UInt(pthread_self()) }
}
