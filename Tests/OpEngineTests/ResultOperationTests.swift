import OpEngine
import TestSupport
import Testing

@Suite struct ResultOperationTests {
    private struct Broken: Error {}
    private let queue = OperationQueue(engine: Engine(workerCount: 2))

    @Test("A dependent reads the result of its dependency with its type", arguments: [false, true])
    func typedResult(isAsync: Bool) async throws {
        let load =
            isAsync
            ? ResultOperation {
                await Task.yield()
                return [1, 2, 3]
            } : ResultOperation { [1, 2, 3] }
        let sum = ResultOperation { try load.result.reduce(0, +) }
        sum.addDependency(load)
        queue.addOperations([sum, load], waitUntilFinished: false)
        try await queue.finished()
        let total: Int = try sum.result
        #expect(total == 6)
        #expect(try await sum.value == 6)
    }

    @Test("There is a result only after the operation has succeeded")
    func noResult() throws {
        let (never, broken, cancelled) = (ResultOperation { 1 }, ResultOperation<Int> { throw Broken() }, ResultOperation { 1 })
        never.name = "never"
        cancelled.cancel()
        queue.addOperations([broken, cancelled], waitUntilFinished: true)
        let error = #expect(throws: OperationError.self) { try never.result }
        #expect("\(error!)" == "never has not finished and has no result yet; depend on it, or wait for it")
        #expect(throws: Broken.self) { try broken.result }
        #expect(throws: CancellationError.self) { try cancelled.result }
    }

    @Test("A closure that does not await runs on a thread of the queue, and another one as a task")
    func threads() async throws {
        let here = ResultOperation { Worker.current != nil && Operation.current != nil }
        let task = ResultOperation {
            await Task.yield()
            return Worker.current == nil
        }
        queue.addOperations([here, task], waitUntilFinished: false)
        // Waits as a task does: the thread of this test may be the only one on which a task can run.
        try await queue.finished()
        #expect(try here.result && task.result)
    }

    // Safety: the stored properties, if any, are constants.
    private final class Doubling: ResultOperation<Int>, @unchecked Sendable {
        let number: Int
        init(_ number: Int) { self.number = number }
        override func run() async throws -> Int {
            await Task.yield()
            return 2 * number
        }
    }

    // Safety: the stored properties, if any, are constants.
    private final class UntilCancelled: AsyncOperation, @unchecked Sendable {
        let began = AsyncGate()
        let log = Log<Bool>()
        override func run() async throws {
            began.open()
            while !Task.isCancelled { await Task.yield() }
            log.append(isCancelled)
            try Task.checkCancellation()
        }
    }

    @Test("A subclass overrides run, and needs no lock")
    func subclass() async throws {
        let doublings = (0..<100).map { Doubling($0) }
        queue.addOperations(doublings, waitUntilFinished: false)
        try await queue.finished()
        #expect(try doublings.map { try $0.result } == (0..<100).map { 2 * $0 })
    }

    @Test("Cancelling an operation cancels the task in which run is called")
    func cancelling() async throws {
        let operation = UntilCancelled()
        queue.addOperation(operation)
        await operation.began.wait()
        operation.cancel()
        await #expect(throws: CancellationError.self) { try await operation.value }
        try await queue.finished()
        #expect(operation.log.entries == [true] && operation.outcome == .cancelled && operation.error == nil)
    }

    @Test("Work that ends in a callback finishes the operation with its result, once")
    func callbacks() async throws {
        // Safety: the stored properties, if any, are constants.
        final class Calling: ResultOperation<String>, @unchecked Sendable {
            override func main() {
                TestThread {
                    self.finish(returning: "first")
                    self.finish(returning: "second")
                    self.finish(with: Broken())
                }.join()
            }
        }
        // Safety: the stored properties, if any, are constants.
        final class Inheriting: ResultOperation<String>, @unchecked Sendable {}
        let (calling, plain, inheriting) = (Calling(), ResultOperation<String>(), Inheriting())
        queue.addOperations([calling, plain, inheriting], waitUntilFinished: false)
        plain.finish(returning: "by hand")
        inheriting.finish(returning: "by hand, too")
        try await queue.finished()
        #expect(try [calling.result, plain.result, inheriting.result] == ["first", "by hand", "by hand, too"])
        #expect(calling.outcome == .succeeded)
    }

    @MainActor private static var count = 0
    @MainActor private static func increment() throws -> Int {
        MainActor.assertIsolated()
        count += 1
        return count
    }

    @Test("A closure that names the main actor runs there")
    func mainActor() async throws {
        let first = queue.addOperation { @MainActor in Self.count += 1 }
        try await first.finished()
        let second = queue.addOperation { @MainActor in try Self.increment() }
        let third = queue.addOperation { @MainActor in
            await Task.yield()
            return try Self.increment()
        }
        let values: [Int] = [try await second.value, try await third.value]
        #expect(values.sorted() == [2, 3])
    }

    @Test("A task waits until a queue is empty, also while the queue is suspended")
    func queueFinished() async throws {
        let log = Log<String>()
        try await queue.finished()
        queue.isSuspended = true
        queue.addOperation { [queue] in
            queue.addOperation { log.append("added meanwhile") }
            log.append("operation")
        }
        let task = Task { [queue] in
            try await queue.finished()
            log.append("finished")
        }
        queue.isSuspended = false
        try await task.value
        #expect(log.entries.sorted() == ["added meanwhile", "finished", "operation"] && log.entries.last == "finished")
    }

    @Test("Cancelling a task ends its wait for a queue, and leaves the operations alone")
    func queueFinishedIsCancelled() async {
        queue.isSuspended = true
        let operation = BlockOperation {}
        queue.addOperation(operation)
        let task = Task { [queue] in try await queue.finished() }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(!operation.isCancelled && queue.operations == [operation])
        queue.isSuspended = false
        operation.waitUntilFinished()
    }

    @Test("Hundreds of tasks wait for a queue that becomes empty again and again")
    func manyWaits() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<300 {
                group.addTask { [queue] in
                    queue.addOperation {}
                    try await queue.finished()
                }
            }
            try await group.waitForAll()
        }
        queue.waitUntilAllOperationsAreFinished()
        #expect(queue.progress.completedUnitCount == 300)
    }
}
