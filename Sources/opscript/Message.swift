import CTerminal
import Glibc

/// Text for people.
enum Message {
    /// Writes to stderr in one piece.
    static func write(_ text: String) { write(text, to: STDERR_FILENO) }

    /// Writes to stdout, after all earlier output of scripts to any file.
    static func prompt(_ text: String) {
        fflush(nil)
        write(text, to: STDOUT_FILENO)
    }

    /// Writes to stdout, after all earlier output of scripts.
    static func output(_ text: String) {
        ct_flush()
        write(text, to: STDOUT_FILENO)
    }

    private static func write(_ text: String, to descriptor: Int32) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = unsafe bytes.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0 && errno != EINTR { return }
            bytes = bytes.dropFirst(max(0, count))
        }
    }
}
