@_spi(Locking) import OpEngine

/// Connections from member to member: what passes by them is faster, and seen by nobody else. Whatever goes wrong here, the way through the server
/// is left.
final class DirectConnections: Sendable {
    private struct Request {
        let name: BlobName
        let place: DirectPlace
        let completion: @Sendable (Blob?) -> Void
    }

    private struct State {
        var listener: DirectListener?
        var waiting: [Request] = []
        var threadCount = 0
        var connections: [ObjectIdentifier: DirectSocket] = [:]
        /// The places where something went wrong, and until when they are not tried.
        var avoided: [DirectPlace: Double] = [:]
        /// Until when nothing waits for a thread, since something has waited in vain.
        var isBusyUntil = 0.0
        var isClosed = false
    }

    /// Smaller blobs are not worth a connection.
    static let fewestBytes = 1 << 20
    /// Blobs that come at once.
    private static let mostThreads = 4
    /// Seconds for which a place is not tried again.
    private static let avoidance = 30.0

    private let key: ClusterKey?
    private let state = Guarded(State())

    init(key: ClusterKey?) { self.key = key }

    /// What listens, for tests.
    var listener: DirectListener? { state.withLock { $0.listener } }

    /// Where others connect to this member; nil if they cannot. Listens from the first call on.
    func place(at address: String, _ handlers: DirectListener.Handlers) -> DirectPlace? {
        state.withLock { state in
            if state.listener == nil, !state.isClosed { state.listener = DirectListener(at: address, key: key, handlers) }
            return state.listener?.place
        }
    }

    // MARK: lines

    /// Makes a line.
    ///
    /// - Parameter serve: called once, with nil if there can be no line now. Otherwise on a thread of its own, and returns when the line has ended.
    func makeLine(to place: DirectPlace, worker: UInt64, session: UInt64, serve: @escaping @Sendable (DirectLine?) -> Void) {
        let isPossible = place.isUsable(hasKey: key != nil)
        let isRunning =
            isPossible
            && onNewThreadIfPossible { [self] in
                var socket: DirectSocket?
                let connection = DirectConnection(to: place, key: key, for: .line(worker: worker, session: session)) { made in
                    socket = made
                    begin(made)
                }
                let granted = connection.flatMap { $0.isGranted ? $0 : nil }
                serve(granted.map { DirectLine($0.socket, seals: $0.requests, opens: $0.answers) })
                if let socket { forget(socket) }
            }
        if !isRunning { serve(nil) }
    }

    /// Ends a connection when this is closed.
    private func begin(_ connection: DirectSocket) {
        let isClosed = state.withLock { state in
            state.connections[ObjectIdentifier(connection)] = connection
            return state.isClosed
        }
        if isClosed { connection.end() }
    }

    private func forget(_ connection: DirectSocket) { state.withLock { $0.connections[ObjectIdentifier(connection)] = nil } }

    // MARK: blobs

    /// Gets a blob.
    ///
    /// - Parameter completion: called once, on any thread; with nil if the blob cannot be had there.
    func fetch(_ name: BlobName, from place: DirectPlace, completion: @escaping @Sendable (Blob?) -> Void) {
        let (isPossible, needsThread) = state.withLock { state in
            let needsThread = state.threadCount < Self.mostThreads
            guard !state.isClosed, place.isUsable(hasKey: key != nil), needsThread || state.isBusyUntil <= Timers.now else {
                return (false, false)
            }
            state.waiting.append(Request(name: name, place: place, completion: completion))
            if needsThread { state.threadCount += 1 }
            return (true, needsThread)
        }
        if !isPossible { return completion(nil) }
        // Those that run may take the blob.
        if needsThread, !onSmallThread({ [self] in run() }) {
            state.withLock { $0.threadCount -= 1 }
            withdraw(name, from: place)
        }
    }

    /// Gives up a blob that has not begun to come. Members that send slowly, or not at all, hold up their own blobs only.
    func withdraw(_ name: BlobName, from place: DirectPlace) {
        let withdrawn = state.withLock { state in
            let withdrawn = state.waiting.filter { $0.name == name && $0.place == place }
            state.waiting.removeAll { $0.name == name && $0.place == place }
            if !withdrawn.isEmpty { state.isBusyUntil = Timers.now + Self.avoidance }
            return withdrawn
        }
        for request in withdrawn { request.completion(nil) }
    }

    /// Ends all connections.
    func close() {
        let (listener, connections) = state.withLock { state in
            state.isClosed = true
            defer { state.listener = nil }
            return (state.listener, Array(state.connections.values))
        }
        listener?.close()
        for connection in connections { connection.end() }
    }

    /// Gets what waits.
    private func run() {
        while true {
            let next = state.withLock { state -> (Request, isAvoided: Bool)? in
                guard !state.waiting.isEmpty else {
                    state.threadCount -= 1
                    return nil
                }
                let request = state.waiting.removeFirst()
                return (request, state.isClosed || state.avoided[request.place].map { $0 > Timers.now } ?? false)
            }
            guard let (request, isAvoided) = next else { return }
            request.completion(isAvoided ? nil : blob(request))
        }
    }

    private func blob(_ request: Request) -> Blob? {
        var connection: DirectSocket?
        let outcome = DirectTransfer(name: request.name, place: request.place, key: key).run { made in
            connection = made
            begin(made)
        }
        if let connection { forget(connection) }
        state.withLock { state in
            guard case .failed = outcome else { return }
            state.avoided = state.avoided.filter { $0.value > Timers.now }
            state.avoided[request.place] = Timers.now + Self.avoidance
        }
        return if case .blob(let blob) = outcome { blob } else { nil }
    }
}
