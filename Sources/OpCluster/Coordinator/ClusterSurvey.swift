import OpPlatform

/// Asks all workers of a cluster who they are, whatever their version of opscript.
public final class ClusterSurvey: Exchange.Handler {
    private let exchange: Exchange
    private let found = Guarded<(workers: [String: WorkerDescription], foreignCount: Int)>(([:], 0))

    /// Makes a survey that is not connected yet.
    public init(_ fabric: any Fabric, key: ClusterKey?) { exchange = Exchange(fabric, key: key, version: "", keptBytes: 0) }

    /// Asks, and waits so many seconds for answers.
    ///
    /// - Returns: the workers, by machine and name; and the number of answers that could not be opened, such as those sealed with another key.
    public func run(seconds: Double) throws(ClusterError) -> (workers: [WorkerDescription], foreignCount: Int) {
        try exchange.start([Subject.hello], self)
        exchange.publish(.find, to: Subject.find)
        let isOver = Awaited<Bool>()
        exchange.fabric.after(seconds) { isOver.give(true) }
        _ = isOver.get()
        exchange.close(waiting: 0)
        let found = found.withLock { $0 }
        return (found.workers.values.sorted { ($0.host, $0.name) < ($1.host, $1.name) }, found.foreignCount)
    }

    func handle(_ message: Message, on subject: String, replyTo reply: String) {
        if case .hello(let worker) = message { found.withLock { $0.workers[worker.id] = worker } }
    }

    func handleForeign(_ difference: Exchange.Unopened, on subject: String) { found.withLock { $0.foreignCount += 1 } }
    func handle(unsealed message: IncomingMessage) {}
    func connectionHasChanged(_ change: ConnectionChange) {}
}
