@_spi(Locking) import OpEngine

/// Gives blobs and lines to those who connect, and know the key and the token.
final class DirectListener: Sendable {
    private struct State {
        var connections: [ObjectIdentifier: DirectSocket] = [:]
        /// Those of them that are lines.
        var lines: Set<ObjectIdentifier> = []
        var isClosed = false
    }

    /// What clients get.
    struct Handlers: Sendable {
        /// Finds a blob.
        var find: @Sendable (BlobName) -> Blob? = { _ in nil }
        /// Returns what serves a line of a worker in a session until the line ends, on a thread of its own; nil to refuse it.
        var acceptLine: @Sendable (_ worker: UInt64, _ session: UInt64) -> (@Sendable (DirectLine) -> Void)? = { _, _ in nil }
    }

    /// More connections than this, without lines, are closed at once, whoever has them.
    private static let mostConnections = 128
    /// Each needs a thread. The workers beyond use the server.
    private static let mostLines = 64
    /// Seconds that a peer may take until it has said what it wants, and for each record then.
    static let patience = 10.0

    let place: DirectPlace
    private let socket: DirectSocket
    private let key: ClusterKey?
    private let handlers: Handlers
    private let state = Guarded(State())
    /// The blobs whose sending has begun: whoever has got one can rely on it.
    private let sent = Guarded(0)

    /// Listens; nil if that fails, or would let the network see what is not sealed.
    init?(at address: String, key: ClusterKey?, _ handlers: Handlers) {
        guard let (socket, port) = DirectSocket.listening(at: address) else { return nil }
        place = DirectPlace(address: address, port: port, token: DirectSecrets.nonce(), machine: DirectPlace.thisMachine)
        (self.socket, self.key, self.handlers) = (socket, key, handlers)
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
    /// How many of them are lines, for tests.
    var lineCount: Int { state.withLock { $0.lines.count } }

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
            if state.isClosed || state.connections.count - state.lines.count >= Self.mostConnections { return false }
            state.connections[ObjectIdentifier(connection)] = connection
            return true
        }
        guard isTaken else { return }
        let isRunning = onSmallThread { [self] in
            guard let serveLine = serve(connection) else { return forget(connection) }
            let isRunning = onNewThreadIfPossible { [self] in
                serveLine()
                forget(connection)
            }
            if !isRunning { forget(connection) }
        }
        // The process may be allowed a few threads only. Whoever connects must not end it.
        if !isRunning { forget(connection) }
    }

    private func forget(_ connection: DirectSocket) {
        state.withLock { state in
            state.connections[ObjectIdentifier(connection)] = nil
            state.lines.remove(ObjectIdentifier(connection))
        }
    }

    /// Gives a blob. Returns what to do about a line, on a thread whose stack is large enough for what comes of messages.
    private func serve(_ connection: DirectSocket) -> (@Sendable () -> Void)? {
        let nonce = DirectSecrets.nonce()
        guard connection.send(DirectSecrets.magic + nonce),
            let request = connection.receive(DirectSecrets.nonceCount + DirectSecrets.tagCount + DirectRequest.count)
        else { return nil }
        let secrets = [place.token, nonce, Array(request.prefix(DirectSecrets.nonceCount))]
        let sealed = Array(request.dropFirst(DirectSecrets.nonceCount))
        guard let requests = DirectSecrets.requests(key, secrets, seals: false), let wanted = requests.open(sealed),
            let answers = DirectSecrets.answers(key, secrets, seals: true), let wanted = DirectRequest(wanted)
        else { return nil }
        func answer(isGranted: Bool) -> Bool { answers.seal([isGranted ? 1 : 0]).map { connection.send($0) && isGranted } ?? false }
        switch wanted {
        case .blob(let name):
            let blob = handlers.find(name)
            guard answer(isGranted: blob != nil), let blob else { return nil }
            sent.withLock { $0 += 1 }
            send(blob, to: connection, sealedBy: key == nil ? nil : answers)
            return nil
        case .line(let worker, let session):
            let serve = handlers.acceptLine(worker, session)
            guard answer(isGranted: serve != nil && countLine(connection)), let serve else { return nil }
            let line = DirectLine(connection, seals: answers, opens: requests)
            return { serve(line) }
        }
    }

    /// Returns whether there may be one more line.
    private func countLine(_ connection: DirectSocket) -> Bool {
        state.withLock { state in state.lines.count < Self.mostLines && state.lines.insert(ObjectIdentifier(connection)).inserted }
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
