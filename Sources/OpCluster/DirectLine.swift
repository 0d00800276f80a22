import Glibc
@_spi(Locking) import OpEngine

/// A connection past the server, for what a worker and a coordinator say to each other about each short task. A message by it wakes nobody but the
/// receiver, and so takes little time from the bodies.
///
/// A message may be lost with the line, and may come before others that were sent over the server earlier.
///
/// - Concurrency: `send` and `end` are for every thread, `receive` is for one.
final class DirectLine: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because one thread uses what is received, and the rest is locked or constant.

    /// Milliseconds that a peer may take to read, before the line ends.
    private static let patience: Int32 = 100
    /// Milliseconds after which a peer is gone that does not acknowledge what it was sent.
    private static let longestSilence: Int32 = 3000
    /// More bytes are no message.
    private static let mostBytes = 64 << 20

    private struct Sending {
        let records: DirectRecords
        var count = 0
    }

    private let socket: DirectSocket
    private let sending: Guarded<Sending>
    private let opening: DirectRecords
    /// What has come, and how much of it was taken.
    private var bytes: [UInt8] = []
    private var takenCount = 0
    private var buffer = [UInt8](repeating: 0, count: 64 << 10)

    /// Takes over a connection whose ends have shown each other that they know the secrets.
    init(_ socket: DirectSocket, seals: DirectRecords, opens: DirectRecords) {
        (self.socket, opening) = (socket, opens)
        sending = Guarded(Sending(records: seals))
        socket.waitForEver(unlessSilentFor: Self.longestSilence)
    }

    /// How many messages were sent, for tests.
    var sentCount: Int { sending.withLock { $0.count } }

    /// Ends the line. What was sent may still come.
    func end() { socket.end() }

    /// Sends a message. Returns false if that was not possible. The line has ended then.
    func send(_ message: Message) -> Bool {
        sending.withLock { sending in
            guard let sealed = sending.records.seal(message.bytes) else { return false }
            let count = UInt32(sealed.count)
            let isSent = socket.send((0..<4).map { UInt8(truncatingIfNeeded: count >> (24 - 8 * $0)) } + sealed, within: Self.patience)
            // A part of a message makes no sense of the next one.
            if isSent { sending.count += 1 } else { socket.end() }
            return isSent
        }
    }

    /// Waits for the next message; nil if there is none any more.
    func receive() -> Message? {
        while true {
            let left = bytes[takenCount...]
            let count = Int(left.prefix(4).reduce(0 as UInt32) { $0 << 8 | UInt32($1) })
            if left.count >= 4, count > Self.mostBytes { return nil }
            if left.count >= 4 + count {
                takenCount += 4 + count
                return opening.open(Array(left.dropFirst(4).prefix(count))).flatMap { try? Message($0[...]) }
            }
            bytes.removeFirst(takenCount)
            takenCount = 0
            guard let received = socket.receiveSome(&buffer) else { return nil }
            bytes += buffer.prefix(received)
        }
    }
}
