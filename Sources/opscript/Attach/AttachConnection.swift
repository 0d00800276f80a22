import Glibc
import OpPlatform

/// One end of the connection between `opscript attach` and the process that it is attached to.
///
/// The attached prompt sends lines. The process answers each line with a reply: a head, which is the kind and the number of bytes, and the
/// text. One thread reads; any thread may send.
final class AttachConnection: Sendable {
    /// The kind of reply: the line was evaluated, is incomplete, or the connection ends.
    enum Kind: String { case done, more, left }

    struct Reply {
        let kind: Kind
        let text: String
    }

    /// The line that interrupts the evaluation in progress.
    static let interrupt = "\u{3}"
    /// The longest line or reply. A peer that sends more is disconnected.
    private static let limit = 16 << 20
    /// A peer that takes no bytes for so long is disconnected.
    private static let patience = timeval(tv_sec: 5, tv_usec: 0)

    let descriptor: Int32
    private let sending = SlowGuarded(0)
    private let received = Guarded<ArraySlice<UInt8>>([])

    init(_ descriptor: Int32) {
        self.descriptor = descriptor
        var patience = Self.patience
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close(descriptor) }

    /// Ends the connection. The thread that reads then gets nil.
    func disconnect() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    // MARK: sending

    /// Sends a line, which has no newline. See `encode`.
    func send(line: String) { send(line + "\n") }

    /// Puts several lines into one: a zero byte stands for each newline.
    static func encode(_ text: String) -> String { text.replacing(UInt8(ascii: "\n"), with: 0) }
    static func decode(_ line: String) -> String { line.replacing(0, with: UInt8(ascii: "\n")) }

    func send(_ reply: Reply) { send("\(reply.kind.rawValue) \(reply.text.utf8.count)\n\(reply.text)") }

    private func send(_ text: String) {
        sending.withLock { _ in
            var bytes = Array(text.utf8)[...]
            while !bytes.isEmpty {
                let count = unsafe bytes.withUnsafeBytes { unsafe Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
                if count < 0 && errno == EINTR { continue }
                if count < 0 { return disconnect() }
                bytes = bytes.dropFirst(count)
            }
        }
    }

    // MARK: receiving

    /// Whether bytes have arrived, or the connection has ended.
    var hasReceived: Bool {
        var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return unsafe received.withLock { !$0.isEmpty } || poll(&event, 1, 0) > 0
    }

    /// The next line, without its newline; nil at the end of the connection. Calls `wasInterrupted` if a signal arrives during the wait.
    func readLine(wasInterrupted: () -> Void = {}) -> String? {
        var searched = 0
        while true {
            let line: ArraySlice<UInt8>? = received.withLock { bytes in
                guard let end = bytes[(bytes.startIndex + searched)...].firstIndex(of: UInt8(ascii: "\n")) else { return nil }
                defer { bytes = bytes[(end + 1)...] }
                return bytes[..<end]
            }
            if let line { return String(decoding: line, as: UTF8.self) }
            searched = received.withLock { $0.count }
            if searched > Self.limit || !receive(wasInterrupted) { return nil }
        }
    }

    /// The next reply; nil at the end of the connection.
    func readReply(wasInterrupted: () -> Void) -> Reply? {
        guard let head = readLine(wasInterrupted: wasInterrupted)?.split(separator: " "), head.count == 2,
            let kind = Kind(rawValue: String(head[0])),
            let length = Int(head[1]), length <= Self.limit
        else { return nil }
        while received.withLock({ $0.count }) < length { if !receive(wasInterrupted) { return nil } }
        let text = received.withLock { bytes in
            defer { bytes = bytes.dropFirst(length) }
            return bytes.prefix(length)
        }
        return Reply(kind: kind, text: String(decoding: text, as: UTF8.self))
    }

    /// Waits for more bytes. Returns false at the end of the connection.
    private func receive(_ wasInterrupted: () -> Void) -> Bool {
        var buffer = [UInt8](repeating: 0, count: 1 << 14)
        let count = unsafe buffer.withUnsafeMutableBytes { unsafe recv(descriptor, $0.baseAddress, $0.count, 0) }
        if count < 0 && errno == EINTR {
            wasInterrupted()
            return true
        }
        if count <= 0 { return false }
        received.withLock { $0 += buffer.prefix(count) }
        return true
    }
}

extension String {
    fileprivate func replacing(_ byte: UInt8, with other: UInt8) -> String {
        String(decoding: utf8.map { $0 == byte ? other : $0 }, as: UTF8.self)
    }
}
