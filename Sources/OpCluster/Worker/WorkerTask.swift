import OpPlatform

/// A task that a worker has.
public final class WorkerTask: Sendable {
    struct Identity: Hashable {
        let run: String
        let number: UInt64
        let attempt: UInt64
    }

    private struct State {
        enum Phase { case new, begun, abandoned }

        var phase = Phase.new
        /// Whether the coordinator was told that the worker has the task.
        var isReported = false
        /// The strongest request that the body has got.
        var stop: StopRequest?
        /// When the body began, by this member's clock.
        var began = 0.0
        var blobs: [Blob] = []
        /// Whether the blobs are here, and whether the coordinator lets the worker begin.
        var hasBlobs = false, hasConsent = false
        var hasEnded = false
    }

    let job: Job
    /// The subject on which the stream learns what becomes of the task's message.
    let acknowledgement: String
    // The task keeps both: its body may finish, or write, after the worker was closed.
    private let worker: ClusterWorker
    let session = Guarded<WorkerRun?>(nil)
    private let state = Guarded(State())

    init(_ job: Job, acknowledgement: String, worker: ClusterWorker) {
        (self.job, self.acknowledgement, self.worker) = (job, acknowledgement, worker)
    }

    var identity: Identity { Identity(run: job.run, number: job.number, attempt: job.attempt) }

    /// When the body began, by this member's clock.
    var began: Double { state.withLock { $0.began } }
    var isBegun: Bool { state.withLock { $0.phase == .begun } }
    /// The strongest request to stop the body; nil if there was none.
    public var stopRequest: StopRequest? { state.withLock { $0.stop } }

    /// Whether the run of the task is over here.
    public var isOver: Bool { session.withLock { $0 }?.isOver ?? true }

    /// Whether the outcome is not needed.
    var isDropped: Bool { state.withLock { $0.stop == .drop } }
    var isReported: Bool { state.withLock { $0.isReported } }

    /// Records that the body starts. Returns false if it must not.
    func start(at time: Double) -> Bool {
        state.withLock { state in
            guard state.phase == .new else { return false }
            (state.phase, state.began) = (.begun, time)
            return true
        }
    }

    /// Records that the body must not start. Returns false if it has started, or if that was recorded.
    func abandon() -> Bool {
        state.withLock { state in
            guard state.phase == .new else { return false }
            state.phase = .abandoned
            return true
        }
    }

    /// Records that the task was reported to the coordinator. Returns false if the task was abandoned.
    func markReported() -> Bool {
        state.withLock { state in
            state.isReported = state.phase == .new
            return state.isReported
        }
    }

    /// Records a stop of the body. Returns false if an equal or stronger stop was recorded before.
    func recordStop(_ request: StopRequest) -> Bool {
        state.withLock { state in
            if let stop = state.stop, stop.rawValue >= request.rawValue { return false }
            state.stop = request
            return true
        }
    }

    /// The blobs of the contents, in the order of their names.
    public var blobs: [Blob] { state.withLock { $0.blobs } }

    /// Stores the blobs. Returns whether the task is ready now.
    func setBlobs(_ blobs: [Blob]) -> Bool {
        state.withLock { state in
            (state.blobs, state.hasBlobs) = (blobs, true)
            return state.hasConsent
        }
    }

    /// Records that the coordinator lets the worker start. Returns whether the task is ready now.
    func recordConsent() -> Bool {
        state.withLock { state in
            defer { state.hasConsent = true }
            return state.hasBlobs && !state.hasConsent
        }
    }

    /// The name of the run that the task is part of.
    public var run: String { job.run }
    /// The number of the task in its run.
    public var number: UInt64 { job.number }
    /// The contents.
    public var bytes: [UInt8] { job.payload.bytes }

    /// Finishes the task. Only the first call counts.
    public func finish(_ payload: Payload) {
        let isFirst = state.withLock { state in
            defer { state.hasEnded = true }
            return !state.hasEnded
        }
        if isFirst { worker.finish(self, payload) }
    }

    /// Passes on the body's output to stdout (1) or stderr (2). Waits while the network is much slower than the body.
    public func write(_ bytes: [UInt8], to stream: UInt8) {
        let run = session.withLock { $0 }
        run?.awaitRoomForOutput()
        // Each part fits a message, and ends with a newline unless a line is longer than a part.
        var rest = bytes[...]
        while !rest.isEmpty {
            let most = rest.prefix(Self.mostOutput)
            let part = most.count == rest.count ? most : most.lastIndex(of: UInt8(ascii: "\n")).map { most[...$0] } ?? most
            run?.report(self, .output(stream: stream, Array(part)))
            rest = rest[part.endIndex...]
        }
    }

    private static let mostOutput = 64 << 10

    /// Asks the coordinator of the run something, and calls `completion` once with the answer; nil if there is none.
    public func ask(_ question: [UInt8], completion: @escaping @Sendable ([UInt8]?) -> Void) {
        ask(question, tries: Self.absences, completion: completion)
    }

    /// How often the subject may have no subscriber, because the coordinator is connecting again, and seconds until the next question.
    private static let absences = 15, absence = 1.0

    private func ask(_ question: [UInt8], tries: Int, completion: @escaping @Sendable ([UInt8]?) -> Void) {
        let exchange = worker.exchange
        exchange.request(.ask(run: job.run, question), to: Subject.run(job.run), every: 2, tries: 15) { [self] reply in
            switch reply {
            case .message(.answer(let answer)): completion(answer)
            case .noResponders where tries > 1:
                exchange.after(Self.absence) { [self] in ask(question, tries: tries - 1, completion: completion) }
            default: completion(nil)
            }
        }
    }

    /// Gets blobs that the coordinator of the run offers; nil if one of them cannot be fetched.
    public func fetch(_ names: [BlobName], completion: @escaping @Sendable ([Blob]?) -> Void) {
        worker.exchange.fetch(names, from: Subject.run(job.run), completion: completion)
    }
}
