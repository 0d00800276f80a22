import Glibc
@_spi(Locking) import OpEngine

/// A connection past the server, for what a worker and a coordinator say to each other about each short task. A message by it wakes nobody but the
/// receiver, and so takes little time from the bodies.
///
/// A message may be lost with the line, and may come before others that were sent over the server earlier.
///
/// - Concurrency: `send` and `end` are for every thread, and never wait. `receive` is for one thread.
final class DirectLine: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because one thread uses what is received, and the rest is locked or constant.

    /// Larger messages are better off at the server: a line does not wait for room.
    private static let mostBytes = 16 << 10

    private struct Sending {
        let records: DirectRecords
        /// The rest of a message for which there was no room.
        var rest: ArraySlice<UInt8> = []
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
        socket.stayOpen()
    }

    /// How many messages were sent, for tests.
    var sentCount: Int { sending.withLock { $0.count } }

    /// Ends the line. What was sent may still come.
    func end() { socket.end() }

    /// Sends a message. Returns false if that is not possible now, or not any more.
    func send(_ message: Message) -> Bool {
        let bytes = message.bytes
        guard bytes.count <= Self.mostBytes else { return false }
        return sending.withLock { sending in
            guard sendRest(&sending), sending.rest.isEmpty, let sealed = sending.records.seal(bytes) else { return false }
            sending.rest = [UInt8(sealed.count >> 8), UInt8(sealed.count & 0xff)] + sealed
            sending.count += 1
            // What there is no room for goes with the next message. If there is none soon, this one comes over the server as well, as if lost.
            return sendRest(&sending)
        }
    }

    /// Sends what is left, as far as there is room. Returns false if the line has ended.
    private func sendRest(_ sending: inout Sending) -> Bool {
        if sending.rest.isEmpty { return true }
        guard let count = socket.sendSome(sending.rest) else { return false }
        sending.rest.removeFirst(count)
        return true
    }

    /// Waits for the next message; nil if there is none any more.
    func receive() -> Message? {
        while true {
            let count = bytes[takenCount...].prefix(2).reduce(0) { $0 << 8 | Int($1) }
            let sealed = bytes[takenCount...].dropFirst(2).prefix(count)
            if bytes.count >= takenCount + 2, sealed.count == count {
                takenCount = sealed.endIndex
                return opening.open(Array(sealed)).flatMap { try? Message($0[...]) }
            }
            bytes.removeFirst(takenCount)
            takenCount = 0
            guard let received = socket.receiveSome(&buffer) else { return nil }
            bytes += buffer.prefix(received)
        }
    }
}
