import Glibc
import OpPlatform

extension Exchange {
    /// Gets blobs from the member that listens on `subject`, unless this member has them.
    ///
    /// - Parameter completion: called once, on any thread, with the blobs in the order of their names; nil if one of them cannot be fetched.
    func fetch(_ names: [BlobName], from subject: String, completion: @escaping @Sendable ([Blob]?) -> Void) {
        let found = names.map { blob($0) }
        guard let missing = found.firstIndex(where: { $0 == nil }) else { return completion(found.compactMap(\.self)) }
        // Fetch one after the other: each transfer keeps the connection busy.
        let transfer = Transfer(name: names[missing], subject: subject)
        let isFirst = addWaiter(for: transfer) { [self] blob in
            guard let blob else { return completion(nil) }
            // The closure keeps the blob, in case the cache has no room for all.
            fetch(names, from: subject) { [blob] blobs in withExtendedLifetime(blob) { completion(blobs) } }
        }
        if isFirst { BlobTransfer(transfer.name, from: subject, over: self).start() }
    }
}

/// The transfer of a blob. It requests several pieces at once.
@safe
private final class BlobTransfer: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because each piece is written to its own part of the memory, and the lock orders the writes before `finish`.

    private static let pieceCount = 256 << 10
    private static let windowCount = 16
    private static let secondsPerTry = 2.0, tries = 8
    /// Seconds after which to ask again if the subject has no subscriber: the member with the blob may be connecting again.
    private static let absence = 1.0

    private struct State {
        /// Made when the first piece has arrived.
        var memory: BlobMemory?
        var nextOffset = 0
        var openCount = 0
        var hasFailed = false
        var isOver = false
    }

    private let name: BlobName
    private let subject: String
    private let exchange: Exchange
    private let state = Guarded(State())

    init(_ name: BlobName, from subject: String, over exchange: Exchange) {
        (self.name, self.subject, self.exchange) = (name, subject, exchange)
    }

    func start() {
        if name.count == 0 { return finish() }
        for _ in 0..<Self.windowCount { requestNextPiece() }
    }

    private func requestNextPiece() {
        let offset = state.withLock { state -> Int? in
            guard !state.hasFailed, state.nextOffset < name.count else { return nil }
            defer { state.nextOffset += Self.pieceCount }
            state.openCount += 1
            return state.nextOffset
        }
        if let offset { requestPiece(at: offset, triesLeft: Self.tries) }
    }

    private func requestPiece(at offset: Int, triesLeft: Int) {
        let count = min(Self.pieceCount, name.count - offset)
        exchange.request(.want(name, offset: offset, count: count), to: subject, every: Self.secondsPerTry, tries: triesLeft) {
            [self] reply in
            if case .noResponders = reply, triesLeft > 1 {
                return exchange.after(Self.absence) { [self] in requestPiece(at: offset, triesLeft: triesLeft - 1) }
            }
            var isThere = false
            if case .message(.piece(offset, let bytes)) = reply, bytes.count == count {
                isThere = memory?.write(bytes, at: offset) ?? false
                if !isThere { reportFullDisk() }
            }
            let isLast = state.withLock { state in
                state.openCount -= 1
                if !isThere { state.hasFailed = true }
                guard state.openCount == 0, state.hasFailed || state.nextOffset >= name.count, !state.isOver else { return false }
                state.isOver = true
                return true
            }
            if isLast { finish() } else { requestNextPiece() }
        }
    }

    /// The memory for the pieces; nil if there is not enough.
    private var memory: BlobMemory? {
        state.withLock { state in
            if state.memory == nil { state.memory = BlobMemory(count: name.count) }
            return state.memory
        }
    }

    private func reportFullDisk() {
        let megabytes = name.count / 1_000_000 + 1
        exchange.connectionHasChanged(
            .fault(
                "there is no room for a value of \(megabytes) MB, neither in memory nor in \(BlobMemory.folder): set TMPDIR to a folder "
                    + "with more room"))
    }

    private func finish() {
        let transfer = Exchange.Transfer(name: name, subject: subject)
        guard !state.withLock(\.hasFailed), let memory else { return exchange.finish(transfer, with: nil) }
        let blob = Blob(memory)
        // The sender may have sent other bytes.
        exchange.finish(transfer, with: blob.name == name ? blob : nil)
    }
}
