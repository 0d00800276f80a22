@_spi(Locking) import OpEngine

/// Gives blobs to those who connect, and know the key and the token.
final class DirectListener: Sendable {
    private struct State {
        var connections: [ObjectIdentifier: DirectSocket] = [:]
        var isClosed = false
    }

    /// More connections than this are closed at once, whoever has them.
    private static let mostConnections = 128
    /// Seconds that a peer may take until it has said what it wants, and for each record then.
    static let patience = 10.0

    let place: DirectPlace
    private let socket: DirectSocket
    private let key: ClusterKey?
    private let find: @Sendable (BlobName) -> Blob?
    private let state = Guarded(State())
    /// The blobs whose sending has begun: whoever has got one can rely on it.
    private let sent = Guarded(0)

    /// Listens; nil if that fails, or would let the network see what is not sealed.
    init?(at address: String, key: ClusterKey?, find: @escaping @Sendable (BlobName) -> Blob?) {
        guard let (socket, port) = DirectSocket.listening(at: address) else { return nil }
        place = DirectPlace(address: address, port: port, token: DirectSecrets.nonce(), machine: DirectPlace.thisMachine)
        (self.socket, self.key, self.find) = (socket, key, find)
        guard place.isUsable(hasKey: key != nil) else { return nil }
        let isRunning = onSmallThread { [weak self] in
            while let connection = socket.accept(patience: Self.patience) { self?.begin(connection) }
        }
        if !isRunning { return nil }
    }

    deinit { close() }

    /// How many blobs have begun to be sent, for tests.
    var sentCount: Int { sent.withLock { $0 } }
    /// How many connections there are, for tests.
    var connectionCount: Int { state.withLock { $0.connections.count } }

    /// Ends all connections, and takes no more.
    func close() {
        let connections = state.withLock { state in
            state.isClosed = true
            return Array(state.connections.values)
        }
        socket.end()
        for connection in connections { connection.end() }
    }

    private func begin(_ connection: DirectSocket) {
        let isTaken = state.withLock { state in
            if state.isClosed || state.connections.count >= Self.mostConnections { return false }
            state.connections[ObjectIdentifier(connection)] = connection
            return true
        }
        guard isTaken else { return }
        let isRunning = onSmallThread { [self] in
            serve(connection)
            forget(connection)
        }
        // The process may be allowed a few threads only. Whoever connects must not end it.
        if !isRunning { forget(connection) }
    }

    private func forget(_ connection: DirectSocket) { state.withLock { $0.connections[ObjectIdentifier(connection)] = nil } }

    private func serve(_ connection: DirectSocket) {
        let nonce = DirectSecrets.nonce()
        guard connection.send(DirectSecrets.magic + nonce),
            let request = connection.receive(DirectSecrets.nonceCount + DirectSecrets.tagCount + DirectSecrets.requestCount)
        else { return }
        let secrets = [place.token, nonce, Array(request.prefix(DirectSecrets.nonceCount))]
        let sealed = Array(request.dropFirst(DirectSecrets.nonceCount))
        guard let wanted = DirectSecrets.requests(key, secrets, seals: false)?.open(sealed),
            let answers = DirectSecrets.answers(key, secrets, seals: true)
        else { return }
        let blob = BlobName(wanted).flatMap { find($0) }
        guard let found = answers.seal([blob == nil ? 0 : 1]), connection.send(found), let blob else { return }
        sent.withLock { $0 += 1 }
        send(blob, to: connection, sealedBy: key == nil ? nil : answers)
    }

    /// Sends the blob, or as much of it as the other one takes.
    private func send(_ blob: Blob, to connection: DirectSocket, sealedBy records: DirectRecords?) {
        // Each has its time.
        var sealed = [UInt8](repeating: 0, count: records == nil ? 0 : DirectSecrets.tagCount + DirectSecrets.recordCount)
        for start in stride(from: 0, to: blob.name.count, by: DirectSecrets.recordCount) {
            let range = start..<min(start + DirectSecrets.recordCount, blob.name.count)
            let record = unsafe UnsafeRawBufferPointer(rebasing: blob.bytes[range])
            let isSent = unsafe sealed.withUnsafeMutableBytes { sealed in
                guard let records else { return unsafe connection.send(record) }
                let part = unsafe UnsafeMutableRawBufferPointer(rebasing: sealed[..<(DirectSecrets.tagCount + range.count)])
                return unsafe records.seal(record, to: part) && connection.send(UnsafeRawBufferPointer(part))
            }
            if !isSent { return }
        }
    }
}

extension BlobName {
    /// The name in a request.
    fileprivate init?(_ bytes: [UInt8]) {
        guard bytes.count == DirectSecrets.requestCount else { return nil }
        let count = bytes.suffix(8).reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
        guard let count = Int(exactly: count) else { return nil }
        self.init(digest: Array(bytes.prefix(Self.digestCount)), count: count)
    }

    /// What the request for the blob says.
    var request: [UInt8] { digest + (0..<8).map { UInt8(truncatingIfNeeded: count >> (56 - 8 * $0)) } }
}
