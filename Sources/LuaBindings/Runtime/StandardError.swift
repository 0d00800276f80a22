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

/// Writes to stdout, after what C has buffered for any file.
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
        if count < 0 && errno != EINTR { return }
        unsafe rest = rest.dropFirst(max(0, count))
    }
}
