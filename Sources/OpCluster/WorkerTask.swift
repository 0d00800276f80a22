import Synchronization

/// A task that a worker has.
public final class WorkerTask: Sendable {
    struct Identity: Hashable {
        let run: String
        let number: UInt64
        let attempt: UInt64
    }

    let job: Job
    let acknowledgement: String
    private unowned let worker: ClusterWorker
    private let times = Mutex(0.0)
    private let contents = Mutex<[Blob]>([])
    private let hasEnded = Atomic<Bool>(false)

    init(_ job: Job, acknowledgement: String, worker: ClusterWorker) {
        (self.job, self.acknowledgement, self.worker) = (job, acknowledgement, worker)
    }

    var identity: Identity { Identity(run: job.run, number: job.number, attempt: job.attempt) }

    /// When the body began, by this member's clock.
    var began: Double {
        get { times.withLock { $0 } }
        set { times.withLock { $0 = newValue } }
    }

    /// The blobs of the contents, in the order of their names.
    public internal(set) var blobs: [Blob] {
        get { contents.withLock { $0 } }
        set { contents.withLock { $0 = newValue } }
    }

    /// The name of the run that the task is part of.
    public var run: String { job.run }
    /// The number of the task in its run.
    public var number: UInt64 { job.number }
    /// The contents.
    public var bytes: [UInt8] { job.payload.bytes }

    /// Ends the task. Only the first call counts.
    public func end(_ payload: Payload) {
        if !hasEnded.exchange(true, ordering: .acquiringAndReleasing) { worker.end(self, payload) }
    }

    /// Passes on what the body has written to stdout (1) or stderr (2).
    public func write(_ bytes: [UInt8], to stream: UInt8) { worker.report(self, .output(stream: stream, bytes)) }

    /// Asks the coordinator of the run something, and calls `completion` once with the answer; nil if there is none.
    public func ask(_ question: [UInt8], completion: @escaping @Sendable ([UInt8]?) -> Void) {
        worker.exchange.request(.ask(run: job.run, question), to: Subject.run(job.run), every: 2, tries: 15) { reply in
            if case .message(.answer(let answer)) = reply { completion(answer) } else { completion(nil) }
        }
    }

    /// Gets blobs that the coordinator of the run offers; nil if one of them cannot be had.
    public func fetch(_ names: [BlobName], completion: @escaping @Sendable ([Blob]?) -> Void) {
        worker.exchange.fetch(names, from: Subject.run(job.run), completion: completion)
    }
}
