import OpEngine
import TestLimits
import TestSupport
import Testing

@Suite(.endsWithin(seconds: 300)) struct ConcurrencyTests {
    private struct Broken: Error {}
    private let queue = OperationQueue(engine: Engine(workerCount: 2))

    /// Suspends tasks until it is opened.
    private final class AsyncGate: Sendable {
        private let stream: AsyncStream<Void>
        private let continuation: AsyncStream<Void>.Continuation
        init() { (stream, continuation) = AsyncStream.makeStream() }
        func open() { continuation.yield() }
        func wait() async { for await _ in stream { return } }
    }

    @Test func finishedReturnsWhenTheOperationHasFinished() async throws {
        let operation = BlockOperation {}
        queue.addOperation(operation)
        try await operation.finished()
        #expect(operation.isFinished)
        try await operation.finished()
    }

    @Test func finishedThrowsTheOperationsError() async {
        let operation = BlockOperation { throw Broken() }
        queue.addOperation(operation)
        await #expect(throws: Broken.self) { try await operation.finished() }
    }

    @Test func finishedThrowsThatItWasCancelled() async {
        let operation = BlockOperation {}
        operation.cancel()
        queue.addOperation(operation)
        await #expect(throws: CancellationError.self) { try await operation.finished() }
    }

    @Test func cancellingTheTaskCancelsTheOperationAndEndsTheWait() async {
        let operation = BlockOperation {}
        queue.isSuspended = true
        queue.addOperation(operation)
        let neverAdded = BlockOperation {}
        for waited in [operation, neverAdded] {
            let task = Task { try await waited.finished() }
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(waited.isCancelled && !waited.isFinished)
        }
        queue.isSuspended = false
    }

    @Test func manyTasksWaitForOneOperation() async throws {
        let operation = AsyncOperation()
        queue.addOperation(operation)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<100 { group.addTask { try await operation.finished() } }
            operation.finish()
            try await group.waitForAll()
        }
        #expect(operation.isFinished)
    }

    @Test func aWaitAndAnEndAtTheSameMomentMeet() async throws {
        for _ in 0..<2000 {
            let operation = BlockOperation {}
            queue.addOperation(operation)
            try await operation.finished()
        }
    }

    @Test func anAsyncClosureIsAnOperationWithAValue() async throws {
        let operation = queue.addOperation {
            await Task.yield()
            return 7
        }
        #expect(try await operation.value == 7)
        #expect(operation.isFinished && operation.outcome == .succeeded && operation.isAsynchronous)
    }

    @Test func aClosureThatAwaitsNothingIsABlock() async {
        let log = Log<Bool>()
        @discardableResult @Sendable func note() -> Int {
            log.append(Worker.current != nil)
            return 1
        }
        queue.addOperation { note() }
        queue.addOperation { if true { note() } }
        queue.addOperation {}
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == [true, true])
    }

    @Test func itCountsUntilTheClosureHasReturned() async throws {
        queue.maxConcurrentOperationCount = 1
        let gate = AsyncGate()
        let began = AsyncGate()
        let first = queue.addOperation {
            began.open()
            await gate.wait()
        }
        let second = ResultOperation { first.isFinished }
        queue.addOperation(second)
        await began.wait()
        #expect(first.isExecuting && !second.isExecuting && queue.operationCount == 2)
        gate.open()
        #expect(try await second.value)
    }

    @Test func itsErrorIsThrownByItsValueAndReleasesDependents() async throws {
        let operation = ResultOperation<Int> { throw Broken() }
        let after = BlockOperation {}
        after.addDependency(operation)
        queue.addOperations([operation, after], waitUntilFinished: false)
        await #expect(throws: Broken.self) { try await operation.value }
        try await after.finished()
        #expect(operation.outcome == .failed && operation.error is Broken)
    }

    @Test func cancellingTheOperationCancelsItsTask() async {
        let began = AsyncGate()
        let operation = queue.addOperation {
            began.open()
            while true {
                try Task.checkCancellation()
                await Task.yield()
            }
        }
        await began.wait()
        operation.cancel()
        await #expect(throws: CancellationError.self) { try await operation.finished() }
        await #expect(throws: CancellationError.self) { try await operation.value }
        #expect(operation.outcome == .cancelled && operation.error == nil)
    }

    @Test func cancellingTheTaskThatWaitsForTheValueCancelsTheOperation() async throws {
        let began = AsyncGate()
        let operation = queue.addOperation {
            began.open()
            while !Task.isCancelled { await Task.yield() }
            return 1
        }
        let task = Task { try await operation.value }
        await began.wait()
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        // The cancelled closure still returned a value.
        let value = try await operation.value
        #expect(value == 1 && operation.outcome == .cancelled)
    }

    @Test func oneThatIsCancelledBeforeItStartsLetsItsClosureGo() async {
        final class Captured: Sendable {
            let log: Log<String>
            init(log: Log<String>) { self.log = log }
            deinit { log.append("gone") }
        }
        let log = Log<String>()
        let operation = { () -> ResultOperation<Void> in
            let captured = Captured(log: log)
            return ResultOperation { log.append("\(captured.log === log)") }
        }()
        operation.cancel()
        operation.start()
        #expect(operation.isFinished && log.entries == ["gone"])
        await #expect(throws: CancellationError.self) { try await operation.value }
    }
}
