public import OpCluster
import TestSupport

/// Runs tasks by closures.
public final class ClosureRunner: ClusterWorker.Runner {
    private let body: @Sendable (WorkerTask) -> Void
    private let stopBody: @Sendable (WorkerTask, StopRequest) -> Void

    /// Makes a runner. Without closures, a task ends at once with its contents, and a stopped one with no bytes.
    public init(
        _ body: @escaping @Sendable (WorkerTask) -> Void = { $0.finish(Payload(bytes: $0.bytes, contents: $0.blobs)) },
        stop: @escaping @Sendable (WorkerTask, StopRequest) -> Void = { task, _ in task.finish(Payload(bytes: [])) }
    ) { (self.body, stopBody) = (body, stop) }

    /// Runs a task.
    public func run(_ task: WorkerTask) { body(task) }
    /// Stops a task.
    public func stop(_ task: WorkerTask, _ request: StopRequest) { stopBody(task, request) }
    /// Does nothing.
    public func detach(_ task: WorkerTask) {}
    /// Does nothing.
    public func runHasEnded(_ run: String) {}
}

/// Members of a cluster at a real server, which are closed with this object.
public final class RealCluster: Sendable {
    /// The key that members have unless they are given another.
    public static let key = ClusterKey(Array("the key of the tests".utf8))
    /// The coordinator.
    public let coordinator: Coordinator
    private let members = Locked<[ClusterWorker]>([])
    private let texts = Locked<[String]>([])

    /// The notices of members for people.
    public var notices: [String] { texts.withLock { $0 } }

    /// Starts a coordinator.
    public init(_ url: String, key: ClusterKey? = RealCluster.key, version: String = "1") async throws {
        var events = Coordinator.Events()
        events.notice = { [texts] text in texts.withLock { $0.append("coordinator: \(text)") } }
        let coordinator = Coordinator(NatsFabric(NatsFabric.Settings(url: url)), key: key, version: version, events: events)
        self.coordinator = coordinator
        if let error = await valueGiven({ coordinator.start(completion: $0) }) {
            coordinator.close()
            throw error
        }
    }

    /// Starts a worker.
    @discardableResult
    public func addWorker(
        _ url: String, slots: Int = 1, key: ClusterKey? = RealCluster.key, version: String = "1",
        runner: ClosureRunner = ClosureRunner()
    ) async throws -> ClusterWorker {
        var events = ClusterWorker.Events()
        events.notice = { [texts] text in texts.withLock { $0.append("worker: \(text)") } }
        let description = WorkerDescription(name: "worker", host: "host", version: version)
        let worker = ClusterWorker(
            NatsFabric(NatsFabric.Settings(url: url)), key: key, description: description, slots: slots, keptBytes: 256 << 20,
            runner: runner,
            events: events)
        members.withLock { $0.append(worker) }
        if let error = await valueGiven({ worker.start(completion: $0) }) { throw error }
        return worker
    }

    /// Closes all members.
    public func close() {
        coordinator.close()
        for worker in members.withLock({ $0 }) { worker.close() }
    }

    deinit { close() }

    /// Runs a task, and returns what has become of it.
    public func run(_ bytes: [UInt8], contents: [Blob] = [], isAtMostOnce: Bool = false) async -> Coordinator.Outcome {
        await valueGiven { give in
            var task = Coordinator.Task(Payload(bytes: bytes, contents: contents))
            task.isAtMostOnce = isAtMostOnce
            coordinator.submit(task, Coordinator.Handlers(ended: give))
        }
    }
}

extension Coordinator.Outcome {
    /// The contents, if a worker has run the task.
    public var payload: Payload? { if case .ended(let payload, _, _, _) = self { payload } else { nil } }
}
