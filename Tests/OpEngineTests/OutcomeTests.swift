import Glibc
import OpPlatform
import Synchronization
import TestLimits
import TestSupport
import Testing

@testable import OpEngine

private struct Failure: Error {}

/// Every way in which an operation can end, and its effect on dependents.
@Suite(.endsWithin(seconds: 60)) struct OutcomeTests {
    /// The outcomes of the operation, and of a dependent with each policy.
    private func dependents(_ prepare: (OperationQueue, Operation) -> Void, of operation: Operation) -> [OperationOutcome?] {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        queue.isSuspended = true
        let (any, strict) = (BlockOperation {}, BlockOperation {})
        strict.dependencyPolicy = .succeeded
        any.addDependency(operation)
        strict.addDependency(operation)
        queue.addOperations([operation, any, strict], waitUntilFinished: false)
        prepare(queue, operation)
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(strict.isCancelled == (strict.outcome == .cancelled))
        if strict.isCancelled { #expect("\(strict.error, default: "")".contains("did not succeed")) }
        return [operation.outcome, any.outcome, strict.outcome]
    }

    // Safety: `@unchecked Sendable` because the block is a constant.
    private final class Hesitating: BlockOperation, @unchecked Sendable {
        private let whenCancelled: @Sendable () -> Void
        init(_ whenCancelled: @escaping @Sendable () -> Void, block: @escaping @Sendable () -> Void) {
            self.whenCancelled = whenCancelled
            super.init()
            addExecutionBlock(block)
        }
        override func cancel() {
            whenCancelled()
            super.cancel()
        }
    }

    /// Another dependency ends between the failure of a dependency and the cancellation that follows.
    @Test func whatMustBeCancelledDoesNotStartMeanwhile() {
        struct Failure: Error {}
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        let (failing, other) = (AsyncOperation(), AsyncOperation())
        let log = Log<String>()
        let strict = Hesitating {
            other.finish()
            // The queue would start `strict`, which has a higher priority, before this operation.
            queue.addOperations([BlockOperation { log.append("later") }], waitUntilFinished: true)
        } block: {
            log.append("ran")
        }
        strict.dependencyPolicy = .succeeded
        strict.queuePriority = .veryHigh
        for dependency in [failing, other] { strict.addDependency(dependency) }
        queue.addOperations([failing, other, strict], waitUntilFinished: false)
        while !failing.isExecuting || !other.isExecuting { sched_yield() }
        failing.finish(with: Failure())
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == ["later"] && strict.outcome == .cancelled)
    }

    @Test func mainReturned() {
        #expect(dependents({ _, _ in }, of: BlockOperation {}) == [.succeeded, .succeeded, .succeeded])
    }

    @Test func mainReturnedAfterCancel() {
        let operation = BlockOperation { Operation.current?.cancel() }
        #expect(dependents({ _, _ in }, of: operation) == [.cancelled, .succeeded, .cancelled])
        #expect(operation.error == nil)
    }

    @Test func mainThrew() {
        let operation = BlockOperation { throw Failure() }
        #expect(dependents({ _, _ in }, of: operation) == [.failed, .succeeded, .cancelled])
        #expect(operation.error is Failure && !operation.isCancelled)
    }

    @Test func mainThrewAfterCancel() {
        let operation = BlockOperation {
            Operation.current?.cancel()
            throw Failure()
        }
        #expect(dependents({ _, _ in }, of: operation) == [.failed, .succeeded, .cancelled])
        #expect(operation.isCancelled)
    }

    @Test func cancelledBeforeItStarted() {
        #expect(dependents({ _, operation in operation.cancel() }, of: BlockOperation {}) == [.cancelled, .succeeded, .cancelled])
    }

    @Test func stoppedByAnInterruption() {
        let operation = BlockOperation {
            Operation.current?.cancel()
            Operation.current?.fail(with: Failure(), outcome: .cancelled)
        }
        #expect(dependents({ _, _ in }, of: operation) == [.cancelled, .succeeded, .cancelled])
        #expect(operation.error is Failure)
    }

    @Test func asynchronousOperationsFailWithTheirFirstError() {
        let operation = AsyncOperation()
        operation.start()
        operation.finish(with: Failure())
        operation.finish()
        #expect(operation.outcome == .failed && operation.error is Failure)
    }

    /// Changes of an observed operation take the lock of its mailbox, which the test holds while a worker records an error.
    @Test func anErrorThatComesWithTheEndHasNoEffect() throws {
        let operation = AsyncOperation(), worker = Locked<Worker?>(nil)
        let token = operation.observe(\.isFinished) { _, _ in }
        let failing = BlockOperation {
            worker.withLock { $0 = Worker.current }
            operation.fail(with: Failure())
        }
        let mailbox = try #require(operation.observedMailbox)
        _ = unsafe mailbox.state.lock()
        OperationQueue(engine: Engine(workerCount: 1)).addOperation(failing)
        while worker.withLock({ $0 })?.waitsForLock.load(ordering: .acquiring) != true {}
        // The transition of the thread that finishes the operation.
        var end = operation.loadState()
        _ = end.publishFinish()
        operation.state.store(end.bits, ordering: .releasing)
        mailbox.state.unlock()
        failing.waitUntilFinished()
        #expect(operation.outcome == .succeeded && operation.error == nil)
        token.invalidate()
    }

    @Test func theQueuesPolicyIsTheDefault() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        queue.dependencyPolicy = .succeeded
        let failing = BlockOperation { throw Failure() }
        let (plain, own) = (BlockOperation {}, BlockOperation {})
        own.dependencyPolicy = .finished
        plain.addDependency(failing)
        own.addDependency(failing)
        queue.addOperations([plain, own, failing], waitUntilFinished: true)
        #expect(plain.outcome == .cancelled && own.outcome == .succeeded)
    }

    @Test func aDependencyThatHadFailedBeforeCountsToo() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        let failing = BlockOperation { throw Failure() }
        failing.start()
        let queued = BlockOperation {}
        queued.addDependency(failing)
        queued.dependencyPolicy = .succeeded
        queue.addOperations([queued], waitUntilFinished: true)
        #expect(queued.outcome == .cancelled)
        let byHand = BlockOperation {}
        byHand.addDependency(failing)
        byHand.dependencyPolicy = .succeeded
        byHand.start()
        #expect(byHand.outcome == .cancelled)
    }

    @Test func cancellationSpreadsAlongAStrictChain() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        queue.dependencyPolicy = .succeeded
        var chain: [Operation] = [BlockOperation { throw Failure() }]
        for _ in 0..<1000 {
            let next = BlockOperation {}
            next.addDependency(chain.last!)
            chain.append(next)
        }
        queue.addOperations(chain, waitUntilFinished: true)
        #expect(chain[1...].allSatisfy { $0.outcome == .cancelled })
    }
}
