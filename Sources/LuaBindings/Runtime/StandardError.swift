#if canImport(Glibc)
    import Glibc
#endif

/// Writes messages for people to stderr, each in one piece.
package enum StandardError {
    package static func write(_ text: String) {
        var text = text
        text.withUTF8 { unsafe write(UnsafeRawBufferPointer($0)) }
    }

    static func write(_ bytes: UnsafeRawBufferPointer) { unsafe writeAll(bytes, to: STDERR_FILENO) }
}

/// Writes to stdout, after the bytes that C has buffered for any file.
enum StandardOutput {
    static func write(_ bytes: UnsafeRawBufferPointer) {
        fflush(nil)
        unsafe writeAll(bytes, to: STDOUT_FILENO)
    }
}

private func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) {
    var rest = unsafe bytes[...]
    while unsafe !rest.isEmpty {
        let count = unsafe Glibc.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
        if count < 0 && errno == EPIPE { takePipeSignal() }
        if count < 0 && errno != EINTR { return }
        unsafe rest = rest.dropFirst(max(0, count))
    }
}

/// Lets this thread receive the SIGPIPE of a write that has failed. The signal ends the process, as it would if a script had written. Threads
/// that write the output of a cluster's workers block the signal.
private func takePipeSignal() {
    var signals = sigset_t(), before = sigset_t()
    unsafe sigemptyset(&signals)
    unsafe sigaddset(&signals, SIGPIPE)
    unsafe pthread_sigmask(SIG_UNBLOCK, &signals, &before)
    unsafe pthread_sigmask(SIG_SETMASK, &before, nil)
}
