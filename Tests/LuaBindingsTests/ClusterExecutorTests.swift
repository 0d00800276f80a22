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

    /// The connection of a worker that has made its encoder send finalizers.
    private final class HostileFabric: Fabric {
        private let fabric: NatsFabric

        init(_ fabric: NatsFabric) { self.fabric = fabric }

        var now: Double { fabric.now }
        var isConnected: Bool { fabric.isConnected }
        var maxPayload: Int { fabric.maxPayload }
        func after(_ seconds: Double, _ body: @escaping @Sendable () -> Void) { fabric.after(seconds, body) }
        func start(_ subjects: [String], _ receiver: any FabricReceiver) throws(ClusterError) { try fabric.start(subjects, receiver) }
        func close(waiting seconds: Double) { fabric.close(waiting: seconds) }

        func publish(_ message: OutgoingMessage) {
            var message = message
            for index in message.bytes.indices where message.bytes[index...].starts(with: "__gx".utf8) {
                message.bytes[index + 3] = UInt8(ascii: "c")
            }
            fabric.publish(message)
        }
    }

    /// A server and a worker with one slot.
    private struct Cluster {
        let server: NatsServer
        let worker: ClusterWorker

        init(whenReleased gate: Gate, isHostile: Bool) throws {
            server = try NatsServer()
            let opener = Opener(gate)
            var events = ClusterWorker.Events()
            events.notice = { _ in withExtendedLifetime(opener) {} }
            let runner = ClusterRunner(slots: 1, memoryLimit: nil, directory: "/tmp")
            let fabric = NatsFabric(NatsFabric.Settings(url: server.url))
            worker = ClusterWorker(
                isHostile ? HostileFabric(fabric) : fabric, key: nil,
                description: WorkerDescription(name: "w", host: "here", version: Runtime.version), slots: 1, keptBytes: 1 << 20,
                runner: runner, events: events)
            let started = Awaited<ClusterError?>()
            worker.start { started.give($0) }
            if let error = started.get() { throw error }
        }
    }

    /// Calls `body` on a thread of its own, since it waits. The operations' output opens the gate. Nothing keeps the worker in the end.
    private func run(isHostile: Bool = false, _ body: @escaping @Sendable (Cluster, Runtime, OperationQueue, Gate) throws -> Void)
        async throws
    {
        try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
            _ = TestThread {
                let isReleased = Gate()
                let result = Result {
                    let cluster = try Cluster(whenReleased: isReleased, isHostile: isHostile)
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

    @Test func aHostileWorkerRunsNoFinalizerHere() async throws {
        try await run(isHostile: true) { _, runtime, _, _ in
            try runtime.run(
                """
                local queue = opscript.OperationQueue.new { name = "far", cluster = true }
                local op = queue:addOperation(function() return setmetatable({}, { __gx = function() hasRun = true end }) end)
                op:waitUntilFinished()
                assert(type(getmetatable(op.result).__gc) == "function", op.error)
                op = nil
                collectgarbage()
                collectgarbage()
                assert(not hasRun)
                """)
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
