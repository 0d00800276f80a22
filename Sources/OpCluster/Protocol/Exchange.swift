import OpPlatform

/// Sends and receives one member's messages: seals and opens them, matches answers with requests, and sends pieces of blobs.
final class Exchange: FabricReceiver, Sendable {
    /// Receives the messages that are no answers and no requests for blobs.
    protocol Handler: AnyObject, Sendable {
        func handle(_ message: Message, on subject: String, replyTo reply: String)
        /// A message of the stream or of the server.
        func handle(unsealed message: IncomingMessage)
        func connectionHasChanged(_ change: ConnectionChange)
        /// A message was sealed with another key or for another place, is of another version, or is malformed.
        func handleForeign(_ difference: Unopened, on subject: String)
    }

    enum Reply: Sendable {
        case message(Message)
        /// An answer of the server.
        case unsealed([UInt8])
        case noResponders
        case timeout
    }

    private struct Request {
        let message: OutgoingMessage
        let interval: Double
        var nextTry: Double
        var triesLeft: Int
        let completion: @Sendable (Reply) -> Void

        /// Whether the server itself answers, without a seal. It answers requests on its own subjects, and messages to the stream.
        var isForServer: Bool { message.subject.hasPrefix("$") || message.id != nil }
    }

    private struct State {
        var requests: [UInt64: Request] = [:]
        /// The functions to call later.
        var delayed: [UInt64: @Sendable () -> Void] = [:]
        var lastNumber: UInt64 = 0
        var shelf: BlobShelf
        var transfers: [Transfer: [@Sendable (Blob?) -> Void]] = [:]
        var isResending = false
        var isClosed = false
    }

    let fabric: any Fabric
    let id: String
    let space: JobSpace
    private let seal: Seal
    private let state: Guarded<State>
    private let inbox: String
    // Set before the fabric starts; nil after `close`.
    private let handler = Guarded<(any Handler)?>(nil)

    /// Seconds between two checks for overdue requests.
    private static let period = 0.1

    /// - Parameter keptBytes: the number of bytes of blobs to keep.
    init(_ fabric: any Fabric, key: ClusterKey?, version: String, keptBytes: Int) {
        self.fabric = fabric
        id = Subject.identifier(fabric.randomNumber())
        seal = Seal(key: key)
        space = JobSpace(seal, version: version)
        inbox = Subject.inbox(id)
        state = Guarded(State(shelf: BlobShelf(limit: keptBytes)))
    }

    func start(_ subjects: [String], _ handler: any Handler) throws(ClusterError) {
        self.handler.withLock { $0 = handler }
        try fabric.start(subjects + ["\(inbox).>"], self)
    }

    /// The numbers of requests and of transfers that wait, for tests.
    var waitingCounts: (requests: Int, transfers: Int) { state.withLock { ($0.requests.count, $0.transfers.count) } }

    func close(waiting seconds: Double) {
        state.withLock { $0.isClosed = true }
        fabric.close(waiting: seconds)
        handler.withLock { $0 = nil }
        let (requests, delayed) = state.withLock { state in
            defer { (state.requests, state.delayed) = ([:], [:]) }
            return (state.requests, state.delayed)
        }
        for request in requests.values { request.completion(.timeout) }
        for body in delayed.values { body() }
    }

    /// Calls `body` once: after so many seconds, or when the exchange is closed, so that no caller waits for ever.
    func after(_ seconds: Double, _ body: @escaping @Sendable () -> Void) {
        let number = state.withLock { state -> UInt64? in
            if state.isClosed { return nil }
            state.lastNumber += 1
            state.delayed[state.lastNumber] = body
            return state.lastNumber
        }
        guard let number else { return body() }
        fabric.after(seconds) { [weak self] in self?.state.withLock { $0.delayed.removeValue(forKey: number) }?() }
    }

    // MARK: sending

    func publish(_ message: Message, to subject: String) {
        fabric.publish(OutgoingMessage(subject: subject, bytes: seal.seal(message.bytes, for: subject, reply: "")))
    }

    /// Asks until an answer arrives, or until no try is left.
    ///
    /// - Parameters:
    ///   - interval: seconds after which to ask again.
    ///   - tries: how often to ask.
    ///   - completion: called once, on any thread.
    func request(
        _ message: Message, to subject: String, every interval: Double, tries: Int, completion: @escaping @Sendable (Reply) -> Void
    ) {
        let bytes = message.bytes
        request(to: subject, every: interval, tries: tries, completion: completion) { [seal] reply in
            seal.seal(bytes, for: subject, reply: reply)
        }
    }

    /// Publishes a message to the stream.
    func store(
        _ message: Message, to subject: String, id: String, every interval: Double, tries: Int,
        completion: @escaping @Sendable (Reply) -> Void
    ) {
        let sealed = seal.seal(message.bytes, for: subject, reply: "")
        request(to: subject, id: id, every: interval, tries: tries, completion: completion) { _ in sealed }
    }

    /// Asks the server.
    func request(
        _ bytes: [UInt8], to subject: String, every interval: Double, tries: Int, completion: @escaping @Sendable (Reply) -> Void
    ) { request(to: subject, every: interval, tries: tries, completion: completion) { _ in bytes } }

    /// - Parameter bytes: makes the contents for a reply subject.
    private func request(
        to subject: String, id: String? = nil, every interval: Double, tries: Int, completion: @escaping @Sendable (Reply) -> Void,
        bytes: (_ reply: String) -> [UInt8]
    ) {
        let (message, isFirst) = state.withLock { state -> (OutgoingMessage?, Bool) in
            if state.isClosed { return (nil, false) }
            state.lastNumber += 1
            let reply = "\(inbox).\(state.lastNumber)"
            let message = OutgoingMessage(subject: subject, reply: reply, id: id, bytes: bytes(reply))
            state.requests[state.lastNumber] = Request(
                message: message, interval: interval, nextTry: fabric.now + interval, triesLeft: tries - 1, completion: completion)
            defer { state.isResending = true }
            return (message, !state.isResending)
        }
        guard let message else { return completion(.timeout) }
        if isFirst { fabric.after(Self.period) { [weak self] in self?.resendRequests() } }
        fabric.publish(message)
    }

    /// Sends overdue requests again, as long as requests wait.
    private func resendRequests() {
        let now = fabric.now, isConnected = fabric.isConnected
        let (again, over) =
            state.withLock { state -> ([OutgoingMessage], [Request])? in
                if state.isClosed { return nil }
                var again: [OutgoingMessage] = [], over: [Request] = []
                // Sorted, so that a simulation can be repeated.
                for (number, request) in state.requests.filter({ $0.value.nextTry <= now }).sorted(by: { $0.key < $1.key }) {
                    if request.triesLeft > 0 || !isConnected {
                        // Without a connection, the request is not sent, and no try is used up.
                        if isConnected { state.requests[number]?.triesLeft -= 1 }
                        state.requests[number]?.nextTry = now + request.interval
                        again.append(request.message)
                    } else {
                        state.requests[number] = nil
                        over.append(request)
                    }
                }
                return (again, over)
            } ?? ([], [])
        if isConnected { for message in again { fabric.publish(message) } }
        for request in over { request.completion(.timeout) }
        let isNeeded = state.withLock { state in
            state.isResending = !state.isClosed && !state.requests.isEmpty
            return state.isResending
        }
        if isNeeded { fabric.after(Self.period) { [weak self] in self?.resendRequests() } }
    }

    // MARK: receiving

    func receive(_ message: IncomingMessage) {
        if message.subject.hasPrefix(inbox), message.subject.utf8.count > inbox.utf8.count + 1,
            let number = UInt64(message.subject.dropFirst(inbox.count + 1))
        {
            return receiveAnswer(message, number)
        }
        guard let handler = handler.withLock({ $0 }) else { return }
        if message.status != 0 || message.subject.hasPrefix(Subject.jobPrefix) { return handler.handle(unsealed: message) }
        switch opened(message) {
        case .success(.want(let name, let offset, let count)):
            let blob = state.withLock { $0.shelf.find(name) }
            let piece = blob.map { Message.piece(offset: offset, $0.piece(at: offset, count: min(count, fabric.maxPayload))) }
            guard !message.reply.isEmpty else { return }
            publish(piece ?? .missing, to: message.reply)
        case .success(let opened): handler.handle(opened, on: message.subject, replyTo: message.reply)
        case .failure(let difference): handler.handleForeign(difference, on: message.subject)
        }
    }

    private func receiveAnswer(_ message: IncomingMessage, _ number: UInt64) {
        guard let request = state.withLock({ $0.requests[number] }) else { return }
        let reply: Reply
        if message.status == IncomingMessage.noResponders {
            reply = .noResponders
        } else if message.status != 0 {
            return
        } else if request.isForServer {
            reply = .unsealed(message.bytes)
        } else {
            switch opened(message) {
            case .success(let opened): reply = .message(opened)
            case .failure(let difference):
                handler.withLock { $0 }?.handleForeign(difference, on: message.subject)
                return
            }
        }
        // Only the first answer counts.
        guard state.withLock({ $0.requests.removeValue(forKey: number) }) != nil else { return }
        request.completion(reply)
    }

    func connectionHasChanged(_ change: ConnectionChange) { handler.withLock { $0 }?.connectionHasChanged(change) }

    enum Unopened: Error { case foreign, otherVersion, malformed }

    /// Tells a person that messages on subjects for one member only could not be opened. Other members have no reason to publish there.
    static let alteredNotice =
        "the cluster's server passes on messages that it has changed, or that were sent to another place: they are ignored"

    func opened(_ message: IncomingMessage) -> Result<Message, Unopened> {
        switch seal.open(message.bytes, from: message.subject, reply: message.reply) {
        case .message(let message):
            do { return .success(try Message(message)) } catch { return .failure(.malformed) }
        case .foreign: return .failure(.foreign)
        case .otherVersion: return .failure(.otherVersion)
        case .malformed: return .failure(.malformed)
        }
    }

    // MARK: blobs

    /// The transfer of a blob from one member. That member may die, and others may have the blob as well.
    struct Transfer: Hashable {
        let name: BlobName
        let subject: String
    }

    /// Lets other members get a blob as long as another object keeps it.
    func offer(_ blob: Blob) { state.withLock { $0.shelf.offer(blob) } }

    func blob(_ name: BlobName) -> Blob? { state.withLock { $0.shelf.find(name) } }

    /// Adds a function that waits for a blob. Returns true for the first one: its caller has to start the transfer.
    func addWaiter(for transfer: Transfer, _ completion: @escaping @Sendable (Blob?) -> Void) -> Bool {
        state.withLock { state in
            state.transfers[transfer, default: []].append(completion)
            return state.transfers[transfer]?.count == 1
        }
    }

    /// Finishes a transfer with its blob; nil if it failed.
    func finish(_ transfer: Transfer, with blob: Blob?) {
        if let blob { cache(blob) }
        for completion in state.withLock({ $0.transfers.removeValue(forKey: transfer) }) ?? [] { completion(blob) }
    }

    /// Keeps a received blob for later tasks.
    func cache(_ blob: Blob) { state.withLock { $0.shelf.cache(blob) } }
}
