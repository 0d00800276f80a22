@_spi(Subclassing) import OpEngine
import TestLimits
import TestSupport
import Testing

@Suite(.endsWithin(seconds: 60)) struct CompletionTests {
    @Test func theBlockRunsOnceAfterTheEndAndIsReleased() {
        final class Token: Sendable {}
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let log = Log<Bool>()
        let done = Gate()
        weak var token: Token?
        let operation = BlockOperation {}
        do {
            let held = Token()
            token = held
            operation.completionBlock = { [unowned operation] in
                log.append(operation.isFinished && operation.completionBlock == nil)
                _ = held
                done.open()
            }
        }
        #expect(token != nil)
        queue.addOperation(operation)
        done.wait()
        _ = queue.engine.shutdown(deadline: .seconds(10))
        #expect(log.entries == [true] && token == nil)
    }

    // Safety: `@unchecked Sendable` because nothing is added to its superclass.
    private final class Subclassed: BlockOperation, @unchecked Sendable {}

    // Safety: as above.
    private final class Finishing: AsyncOperation, @unchecked Sendable {
        override func main() { finish() }
    }

    /// Therefore a completion block that waits for its queue does not wait for itself.
    @Test(arguments: [BlockOperation(), Subclassed(), Finishing()])
    func theBlockIsNotPartOfTheOperation(operation: Operation) {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        let log = Log<Bool>()
        operation.completionBlock = {
            log.append(Operation.current == nil && OperationQueue.current == nil)
            log.append((try? queue.tryWaitUntilAllOperationsAreFinished()) == true)
        }
        queue.addOperation(operation)
        _ = queue.engine.shutdown(deadline: .seconds(10))
        #expect(log.entries == [true, true])
    }

    @Test func oneThatIsSetWhileTheOperationExecutesRuns() {
        let (log, done) = (Log<Bool>(), Gate())
        let operation = BlockOperation {
            Operation.current?.completionBlock = { [current = Operation.current] in
                log.append(current?.isFinished == true)
                done.open()
            }
        }
        OperationQueue(engine: Engine(workerCount: 1)).addOperations([operation], waitUntilFinished: true)
        done.wait()
        #expect(log.entries == [true])
    }

    @Test func oneThatIsSetAfterTheEndNeverRuns() {
        let log = Log<Bool>()
        let operation = BlockOperation {}
        operation.start()
        operation.completionBlock = { log.append(true) }
        #expect(throws: OperationError.self) { try operation.trySetCompletionBlock { log.append(true) } }
        #expect(operation.completionBlock == nil && log.entries.isEmpty)
    }

    /// Removing the block breaks a cycle, wherever the removal happens.
    @Test func itCanBeRemovedAtAnyTime() throws {
        let log = Log<Bool>()
        let operation = BlockOperation {
            Operation.current?.completionBlock = nil
            try Operation.current?.trySetCompletionBlock(nil)
        }
        operation.completionBlock = { log.append(true) }
        operation.start()
        operation.completionBlock = nil
        try operation.trySetCompletionBlock(nil)
        #expect(log.entries.isEmpty && operation.outcome == .succeeded)
    }

    /// The block is set at a random moment of the end. It runs if it is accepted, and does not run if it is refused.
    @Test func oneThatIsSetAtTheEndRunsExactlyWhenItIsAccepted() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        for _ in 0..<TestLength.size(20_000) {
            let (accepted, ran) = (Log<Bool>(), Log<Bool>())
            let operation = BlockOperation {}
            queue.addOperation(operation)
            do {
                try operation.trySetCompletionBlock { ran.append(true) }
                accepted.append(true)
            } catch {}
            operation.waitUntilFinished()
            queue.addOperations([BlockOperation {}], waitUntilFinished: true)
            #expect(accepted.entries == ran.entries)
        }
    }

    @Test func cancelledOperationsCompleteAsWell() {
        let log = Log<Bool>()
        let operation = BlockOperation {}
        operation.completionBlock = { log.append(true) }
        operation.cancel()
        operation.start()
        #expect(log.entries == [true])
    }

    // Safety: `@unchecked Sendable` because its only property is a constant.
    private final class Telling: Operation, @unchecked Sendable {
        let log = Log<String>()
        override func willFinish() { log.append("will finish: \(isFinished)") }
        override func didFinish() { log.append("did finish: \(isFinished)") }
    }

    @Test(arguments: [false, true])
    func aSubclassIsToldOfTheEndWhenItHasAskedForThat(inQueue: Bool) {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        func run(_ operation: Operation) {
            if inQueue { queue.addOperations([operation], waitUntilFinished: true) } else { operation.start() }
            _ = queue.engine.shutdown(deadline: .seconds(10))
        }
        let telling = Telling()
        #expect(telling.tellWhenFinished() && telling.tellWhenFinished())
        telling.completionBlock = { [log = telling.log] in log.append("completion block") }
        run(telling)
        // Another callback for the end does not change the order.
        telling.whenFinished {}
        #expect(telling.log.entries == ["will finish: false", "completion block", "did finish: true"])
        #expect(!telling.tellWhenFinished())
        #expect(telling.log.entries.count == 4)
    }

    @Test func aSubclassThatHasNotAskedIsNotToldOfTheEnd() {
        let silent = Telling()
        silent.completionBlock = {}
        silent.whenFinished {}
        let token = silent.observe(\.isFinished) { _, _ in }
        silent.start()
        silent.waitUntilFinished()
        #expect(silent.log.entries == [])
        token.invalidate()
    }

    @Test func aHandlerRunsAtOnceOnAFinishedOperation() {
        let log = Log<Int>()
        let operation = BlockOperation {}
        operation.whenFinished { log.append(1) }
        operation.start()
        operation.whenFinished { log.append(2) }
        #expect(log.entries == [1, 2])
    }

    @Test func handlersThatRaceWithTheEndRunOnce() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        for _ in 0..<2000 {
            let log = Log<Int>()
            let operation = BlockOperation {}
            queue.addOperation(operation)
            operation.whenFinished { log.append(1) }
            operation.whenFinished { log.append(2) }
            queue.waitUntilAllOperationsAreFinished()
            let ended = Gate()
            engine.mainInbox.post { ended.open() }
            _ = engine.mainInbox.drain()
            queue.addBarrierBlock {}
            queue.waitUntilAllOperationsAreFinished()
            #expect(Set(log.entries).count == log.count)
        }
    }

    @Test func aCompletionBlockMayUseItsQueue() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        let done = Gate()
        let operation = BlockOperation {}
        operation.completionBlock = {
            queue.addOperation {
                queue.isSuspended = false
                queue.cancelAllOperations()
                done.open()
            }
        }
        queue.addOperation(operation)
        done.wait()
        queue.waitUntilAllOperationsAreFinished()
    }

    @Test func allBlocksOfABlockOperationRunAndTheFirstErrorWins() {
        struct Failure: Error {}
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let log = Log<Int>()
        let operation = BlockOperation { log.append(0) }
        for index in 1..<20 {
            operation.addExecutionBlock {
                log.append(index)
                if index == 7 { throw Failure() }
            }
        }
        #expect(operation.executionBlocks.count == 20)
        queue.maxConcurrentOperationCount = 1
        queue.addOperations([operation], waitUntilFinished: true)
        #expect(log.entries.sorted() == Array(0..<20))
        #expect(operation.outcome == .failed && operation.error is Failure)
    }

    @Test func blocksRunConcurrentlyBeyondTheMaximum() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        queue.maxConcurrentOperationCount = 1
        let (first, second) = (Gate(), Gate())
        let operation = BlockOperation {
            first.open()
            second.wait()
        }
        operation.addExecutionBlock {
            second.open()
            first.wait()
        }
        queue.addOperations([operation], waitUntilFinished: true)
        #expect(operation.outcome == .succeeded)
    }

    @Test func handlersThatAreTakenBackAreNotCalled() {
        let operation = BlockOperation {}
        let (owner, other, called) = (Log<Void>(), Log<Void>(), Log<String>())
        operation.whenFinished(for: owner) { called.append("taken back") }
        operation.whenFinished(for: other) { called.append("of another") }
        operation.whenFinished { called.append("of nobody") }
        operation.whenFinished(for: owner) { called.append("taken back") }
        operation.forgetFinishHandlers(of: owner)
        operation.start()
        #expect(called.entries == ["of another", "of nobody"])
        operation.forgetFinishHandlers(of: other)
    }
}
