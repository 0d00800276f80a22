import ClusterSupport
import LuaBindings
import OpCluster
import OpEngine
import OpPlatform
import TestLimits
import TestSupport
import Testing

/// A program whose operations run on a cluster. The worker is in this process as well.
@Suite struct ClusterExecutorTests {
    /// Opens the gate when it is released.
    private final class Opener: Sendable {
        let gate: Gate

        init(_ gate: Gate) { self.gate = gate }

        deinit { gate.open() }
    }

    /// A server and a worker with one slot.
    private struct Cluster {
        let server: NatsServer
        let worker: ClusterWorker

        init(whenReleased gate: Gate) throws {
            server = try NatsServer()
            let opener = Opener(gate)
            var events = ClusterWorker.Events()
            events.notice = { _ in withExtendedLifetime(opener) {} }
            let runner = ClusterRunner(slots: 1, memoryLimit: nil, directory: "/tmp")
            worker = ClusterWorker(
                NatsFabric(NatsFabric.Settings(url: server.url)), key: nil,
                description: WorkerDescription(name: "w", host: "here", version: Runtime.version), slots: 1, keptBytes: 1 << 20,
                runner: runner, events: events)
            let started = Awaited<ClusterError?>()
            worker.start { started.give($0) }
            if let error = started.get() { throw error }
        }
    }

    /// Calls `body` on a thread of its own, since it waits. The operations' output opens the gate. Nothing keeps the worker in the end.
    private func run(_ body: @escaping @Sendable (Cluster, Runtime, OperationQueue, Gate) throws -> Void) async throws {
        try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
            _ = TestThread {
                let isReleased = Gate()
                let result = Result {
                    let cluster = try Cluster(whenReleased: isReleased)
                    defer { cluster.worker.close() }
                    var configuration = Runtime.Configuration()
                    configuration.cluster = Runtime.Cluster(url: cluster.server.url)
                    let hasPrinted = Gate()
                    configuration.output = { _ in hasPrinted.open() }
                    let runtime = try Runtime(configuration)
                    defer { runtime.close() }
                    let queue = OperationQueue(engine: runtime.engine)
                    queue.underlyingQueue = try runtime.clusterExecutor(named: "far")
                    try body(cluster, runtime, queue, hasPrinted)
                }
                isReleased.wait()
                done.resume(with: result)
            }
        }
    }

    @Test func functionsRunAtAWorkerAndBlocksHere() async throws {
        try await run { cluster, runtime, queue, _ in
            let function = try runtime.function("local factor = 2; return function(operation, n) return factor * n, operation.name end")
            let operation = LuaOperation(function, arguments: [.integer(21)])
            operation.name = "double"
            let hasRun = Locked(false)
            queue.addOperation(operation)
            queue.addOperation { hasRun.withLock { $0 = true } }
            queue.waitUntilAllOperationsAreFinished()
            #expect(try runtime.results(of: operation) == [.integer(42), .string("double")])
            #expect(hasRun.withLock { $0 })
            #expect(cluster.worker.status.endedCount == 1)
        }
    }

    @Test func aFailureComesBackAndAnInterruptGoesThere() async throws {
        try await run { _, runtime, queue, hasPrinted in
            let failing = LuaOperation(try runtime.function("return function() error('far away', 0) end"))
            let endless = LuaOperation(try runtime.function("return function() print(1) while true do end end"))
            queue.addOperation(failing)
            failing.waitUntilFinished()
            queue.addOperation(endless)
            hasPrinted.wait()
            endless.interrupt()
            queue.waitUntilAllOperationsAreFinished()
            #expect((failing.error as? OperationFailure)?.message == "far away")
            #expect((endless.error as? OperationFailure)?.kind == .interrupted && endless.isCancelled)
        }
    }

    @Test(.endsWithin(seconds: 300)) func aClosedWorkerEndsItsRuns() async throws {
        try await run { cluster, runtime, queue, hasPrinted in
            queue.addOperation(LuaOperation(try runtime.function("return function() print(1) while true do end end")))
            hasPrinted.wait()
            cluster.worker.close()
        }
    }

    @Test func anErrorSaysWhatIsMissing() throws {
        #expect(throws: LuaError.self) { try Runtime().clusterExecutor() }
        var configuration = Runtime.Configuration()
        configuration.cluster = Runtime.Cluster(url: "nats://cluster.example")
        let runtime = try Runtime(configuration)
        let error = #expect(throws: LuaError.self) { try runtime.clusterExecutor() }
        #expect(error?.message.contains("needs TLS") ?? false && error?.message.contains("a key (--key FILE)") ?? false)
    }
}
