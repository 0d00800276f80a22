import Synchronization
import TestLimits
import TestSupport
import Testing

@testable import OpEngine

/// Operations that are tried again.
@Suite struct RetryTests {
    private struct Failure: Error, Equatable { let attempt: Int }

    @Test func attemptsFollowOneAnotherWithLongerPauses() throws {
        let simulation = Engine.Simulation(seed: 3)
        let queue = OperationQueue(engine: simulation.engine), log = Log<Double>(), begin = simulation.now
        let operation = Flaky(failing: 10) { log.append(begin.duration(to: simulation.now) / .seconds(1)) }
        operation.retryPolicy = RetryPolicy(attempts: 5, delay: 0.5, backoff: 2, maxDelay: 1.5)
        let ends = Log<Int>()
        operation.completionBlock = { ends.append(operation.attempt) }
        queue.addOperation(operation)
        #expect(simulation.step())
        #expect(!operation.isExecuting && !operation.isFinished && operation.error == nil)
        #expect(operation.whyNotRunning?.description == "Flaky has failed, and attempt 2 of 5 begins in 0.5 s")
        while simulation.step() {}
        #expect(log.entries == [0, 0.5, 1.5, 3, 4.5])
        #expect(operation.outcome == .failed && operation.attempt == 5 && ends.entries == [5])
        #expect(operation.error as? Flaky.Failure == Flaky.Failure(attempt: 5))
        #expect(operation.attemptErrors.map { $0 as? Flaky.Failure } == (1...4).map { Flaky.Failure(attempt: $0) })
    }

    @Test func anOperationThatSucceedsAtLastHasSucceeded() throws {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        queue.maxConcurrentOperationCount = 1
        let operations = (0..<40).map { index in
            let operation = index % 2 == 0 ? Flaky(failing: 2) {} : AsyncFlaky(failing: 2)
            operation.retryPolicy = RetryPolicy(attempts: 3, delay: index % 4 < 2 ? 0 : 0.001, jitter: true)
            return operation
        }
        let dependent = BlockOperation {}
        dependent.dependencyPolicy = .succeeded
        for operation in operations { dependent.addDependency(operation) }
        queue.addOperations(operations + [dependent], waitUntilFinished: true)
        for operation in operations {
            #expect(operation.outcome == .succeeded && operation.attempt == 3 && operation.error == nil)
            #expect(operation.attemptErrors.count == 2)
        }
        #expect(dependent.outcome == .succeeded)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func aPauseHoldsNoPlaceAndNoKey() throws {
        let simulation = Engine.Simulation(seed: 5)
        let queue = OperationQueue(engine: simulation.engine), log = Log<String>()
        queue.maxConcurrentOperationCount = 1
        let operation = Flaky(failing: 1) { log.append("flaky") }
        operation.retryPolicy = RetryPolicy(attempts: 2, delay: 60)
        operation.exclusiveKeys = ["key"]
        let other = BlockOperation { log.append("other") }
        other.exclusiveKeys = ["key"]
        queue.addOperations([operation, other], waitUntilFinished: false)
        while simulation.step() {}
        #expect(log.entries == ["flaky", "other", "flaky"])
        #expect(operation.outcome == .succeeded)
    }

    @Test(.endsWithin(seconds: 60)) func cancellingEndsThePause() throws {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        let operation = Flaky(failing: 9) {}
        operation.retryPolicy = RetryPolicy(attempts: 9, delay: 3600)
        queue.addOperation(operation)
        while operation.whyNotRunning?.blockers.contains(where: { if case .retry = $0 { true } else { false } }) != true {}
        operation.cancel()
        try operation.tryWaitUntilFinished()
        #expect(operation.outcome == .cancelled && operation.attempt == 1 && operation.attemptErrors.count == 1)
        #expect(engine.isQuiescent || engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func theErrorDecidesWhetherThereIsAnotherAttempt() throws {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine), operation = Flaky(failing: 9) {}
        operation.retryPolicy = RetryPolicy(attempts: 9, when: { ($0 as? Flaky.Failure)?.attempt ?? 9 < 3 })
        queue.addOperations([operation], waitUntilFinished: true)
        #expect(operation.outcome == .failed && operation.attempt == 3)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test(.endsWithin(seconds: 60)) func whatAFormerAttemptSaysLaterDoesNotEndTheOperation() throws {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine), operation = AsyncFlaky(failing: 1)
        operation.retryPolicy = RetryPolicy(attempts: 2, delay: 3600)
        queue.addOperation(operation)
        while operation.whyNotRunning?.blockers.contains(where: { if case .retry = $0 { true } else { false } }) != true {}
        operation.finish()
        #expect(!operation.isFinished && operation.isReady)
        operation.cancel()
        try operation.tryWaitUntilFinished()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func aPauseIsNoWaitThatNothingEnds() throws {
        let engine = Engine(workerCount: 1, hostMayAddOperations: false)
        let queue = OperationQueue(engine: engine), operation = Flaky(failing: 2) {}
        operation.retryPolicy = RetryPolicy(attempts: 3, delay: 0.01)
        queue.addOperation(operation)
        try operation.tryWaitUntilFinished()
        #expect(operation.outcome == .succeeded)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func twoAttemptsNeverOverlap() throws {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine), operation = EndedInStart()
        operation.retryPolicy = RetryPolicy(attempts: 3)
        queue.addOperation(operation)
        try operation.tryWaitUntilFinished()
        #expect(operation.outcome == .failed && operation.attempt == 3)
        #expect(operation.most.withLock { $0 } == 1)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func theLatestHundredErrorsAreKeptAndManyAttemptsTakeTimeInProportion() throws {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine), operation = Flaky(failing: .max) {}
        operation.retryPolicy = RetryPolicy(attempts: 20_000)
        queue.addOperation(operation)
        try operation.tryWaitUntilFinished()
        #expect(operation.attempt == 20_000)
        #expect(operation.attemptErrors.map { ($0 as? Flaky.Failure)?.attempt } == (19_900..<20_000).map { $0 })
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test(arguments: [(1, 0.5), (2, 1), (3, 2), (4, 4), (5, 5), (1_000_000_000, 5)])
    func pausesGrowUpToTheLongest(_ attempt: Int, _ seconds: Double) {
        let policy = RetryPolicy(attempts: .max, delay: 0.5, backoff: 2, maxDelay: 5)
        #expect(policy.pause(after: attempt, random: 1) == seconds)
        #expect(RetryPolicy(attempts: .max, delay: 0.5).pause(after: attempt, random: 1) == 0.5)
    }

    @Test func anErrorInAConditionIsTheOperationsAndIsNotTriedAgain() throws {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine), operation = Flaky(failing: 0) { Issue.record("it has run") }
        operation.retryPolicy = RetryPolicy(attempts: 3)
        operation.addCondition(OperationPrecondition(name: "broken") { _ in .error(Flaky.Failure(attempt: -1)) })
        queue.addOperations([operation], waitUntilFinished: true)
        #expect(operation.outcome == .failed && operation.attempt == 0 && operation.error as? Flaky.Failure == Flaky.Failure(attempt: -1))
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func aPolicyThatIsSetDuringAnAttemptHasNoEffectOnAnOperationWithoutOne() throws {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine), operation = LateFlaky()
        queue.addOperations([operation], waitUntilFinished: true)
        #expect(operation.outcome == .failed && operation.attemptErrors.isEmpty)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func operationsOfEveryKindDoTheirWorkAgain() async throws {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine), calls = Log<String>()
        let work = { @Sendable (name: String) throws -> Int in
            calls.append(name)
            if calls.entries.count(where: { $0 == name }) < 3 { throw Failure(attempt: 0) }
            return 7
        }
        let block = BlockOperation { _ = try work("block") }
        let two = BlockOperation { _ = try work("first") }
        try two.tryAddExecutionBlock { _ = try work("second") }
        let invocation = InvocationOperation(target: calls, method: { _ in { try work("invocation") } })
        let result = ResultOperation { try work("result") }
        let task = ResultOperation {
            await Task.yield()
            return try work("task")
        }
        let all: [Operation] = [block, two, invocation, result, task]
        for operation in all { operation.retryPolicy = RetryPolicy(attempts: 3, delay: 0.0001) }
        // Waits as a task does: the thread of this test may be the only one on which the task can run.
        queue.addOperations(all, waitUntilFinished: false)
        for operation in all { try await operation.finished() }
        for operation in all { #expect(operation.outcome == .succeeded && operation.attempt == 3) }
        #expect(try invocation.result == 7)
        #expect(try await task.value == 7 && result.result == 7)
        for name in ["block", "first", "second", "invocation", "result", "task"] {
            #expect(calls.entries.count { $0 == name } == 3, "\(name)")
        }
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test(arguments: [true, false]) func theValueIsThatOfTheLastAttempt(firstReturns: Bool) throws {
        let simulation = Engine.Simulation(seed: 2)
        let queue = OperationQueue(engine: simulation.engine)
        let operation = ResultOperation<Int> {
            let attempt = Operation.current?.attempt ?? 0
            if attempt == 1 && !firstReturns { throw Failure(attempt: 1) }
            if attempt == 1 { Operation.current?.fail(with: Failure(attempt: 1)) }
            return attempt
        }
        operation.retryPolicy = RetryPolicy(attempts: 2, delay: 60)
        queue.addOperation(operation)
        #expect(simulation.step())
        #expect(operation.attemptErrors.count == 1 && !operation.isFinished)
        // Something that the first attempt has begun ends in the pause.
        operation.finish(returning: 3)
        while simulation.step() {}
        #expect(try operation.result == 2)
    }

    @Test func aDependencyAddedInAPauseDoesNotShortenIt() throws {
        let simulation = Engine.Simulation(seed: 9)
        let queue = OperationQueue(engine: simulation.engine), times = Log<Double>(), begin = simulation.now
        let operation = Flaky(failing: 1) { times.append(begin.duration(to: simulation.now) / .seconds(1)) }
        operation.retryPolicy = RetryPolicy(attempts: 2, delay: 60)
        let dependency = BlockOperation {}, finished = BlockOperation {}
        queue.addOperations([operation, finished], waitUntilFinished: false)
        while operation.attemptErrors.isEmpty || !finished.isFinished { #expect(simulation.step()) }
        operation.addDependency(finished)
        operation.addDependency(dependency)
        queue.addOperation(dependency)
        while simulation.step() {}
        #expect(times.entries == [0, 60])
    }

    @Test func aDependencyThatHasFailedSinceTheStartEndsTheOperation() throws {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        let failed = BlockOperation { throw Failure(attempt: 1) }
        queue.addOperations([failed], waitUntilFinished: true)
        let operation = Flaky(failing: 9) {}
        operation.addDependency(failed)
        operation.retryPolicy = RetryPolicy(attempts: 9)
        let late = Doomed(failed)
        late.dependencyPolicy = .succeeded
        late.retryPolicy = RetryPolicy(attempts: 9)
        queue.addOperations([operation, late], waitUntilFinished: true)
        #expect(operation.attempt == 9 && late.outcome == .failed && late.attempt == 1)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func aPauseAfterAnAsynchronousAttemptIsNoWaitThatNothingEnds() throws {
        let engine = Engine(workerCount: 1, hostMayAddOperations: false)
        let queue = OperationQueue(engine: engine), operation = AsyncFlaky(failing: 2)
        operation.retryPolicy = RetryPolicy(attempts: 3, delay: 0.01)
        engine.hold()
        queue.addOperation(operation)
        engine.release()
        try operation.tryWaitUntilFinished()
        #expect(operation.outcome == .succeeded)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func aSuspendedQueueThatIsDroppedDuringAnAttemptEndsWithIt() {
        let simulation = Engine.Simulation(seed: 1)
        weak var dropped: OperationQueue?
        let operation = Flaky(failing: 1) { OperationQueue.current?.isSuspended = true }
        operation.retryPolicy = RetryPolicy(attempts: 2, delay: 3600)
        do {
            let queue = OperationQueue(engine: simulation.engine)
            dropped = queue
            queue.addOperation(operation)
        }
        #expect(dropped != nil)
        while simulation.step() {}
        #expect(dropped == nil && operation.outcome == .cancelled && operation.attempt == 1)
        #expect(simulation.engine.unfinishedOperationCount == 0)
    }

    @Test(.endsWithin(seconds: 60)) func aShutdownEndsPauses() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine), operation = Flaky(failing: 9) {}
        operation.retryPolicy = RetryPolicy(attempts: 9, delay: 3600)
        queue.addOperation(operation)
        while operation.attemptErrors.isEmpty {}
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(operation.outcome == .cancelled)
    }
}

/// Fails in the first attempts.
private final class Flaky: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the class it inherits from is; the stored properties are constants.
    struct Failure: Error, Equatable { let attempt: Int }

    private let failures: Int
    private let block: @Sendable () -> Void

    init(failing failures: Int, _ block: @escaping @Sendable () -> Void) {
        self.failures = failures
        self.block = block
    }

    override func main() {
        block()
        if attempt <= failures { fail(with: Failure(attempt: attempt)) }
    }
}

/// Fails in the first attempts. Each of them finishes on another thread.
private final class AsyncFlaky: AsyncOperation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the class it inherits from is; the stored property is a constant.
    private let failures: Int

    init(failing failures: Int) { self.failures = failures }

    override func main() {
        let attempt = attempt
        _ = TestThread { [self] in
            if attempt <= failures { fail(with: Flaky.Failure(attempt: attempt)) }
            finish()
        }
    }
}

/// Fails on another thread before its `main` has returned.
private final class EndedInStart: AsyncOperation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the properties never change, or have locks.
    let most = Locked(0)
    private let inside = Locked(0)

    override func main() {
        let count = inside.withLock { count in
            count += 1
            return count
        }
        most.withLock { $0 = max($0, count) }
        let other = TestThread { [self] in
            fail(with: Flaky.Failure(attempt: 0))
            finish()
        }
        other.join()
        inside.withLock { $0 -= 1 }
    }
}

/// Wants to be tried again when it runs.
private final class LateFlaky: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the class it inherits from is; there are no stored properties.
    override func main() {
        retryPolicy = RetryPolicy(attempts: 3)
        fail(with: Flaky.Failure(attempt: 1))
    }
}

/// Fails, after it has got a dependency that has failed.
private final class Doomed: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the class it inherits from is; the stored property is a constant.
    private let failed: Operation

    init(_ failed: Operation) { self.failed = failed }

    override func main() {
        addDependency(failed)
        fail(with: Flaky.Failure(attempt: attempt))
    }
}
