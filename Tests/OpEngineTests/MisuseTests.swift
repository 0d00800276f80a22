import Glibc
import OpEngine
import TestSupport
import Testing

@Suite struct MisuseTests {
    private func message(_ body: () throws -> Void) -> String {
        do {
            try body()
            return "no error"
        } catch { return "\(error)" }
    }

    private func named(_ name: String) -> BlockOperation {
        let operation = BlockOperation {}
        operation.name = name
        return operation
    }

    @Test func startingTwiceIsRefused() {
        let operation = named("resize")
        operation.start()
        #expect(message { try operation.tryStart() } == "resize cannot start: it has finished; an operation runs once, make a new one")
    }

    @Test func startingAnUnreadyOneIsRefusedAndNamesWhatItWaitsFor() {
        let operation = named("b")
        operation.addDependency(named("a"))
        #expect(
            message { try operation.tryStart() }
                == "b cannot start: it waits for a; add it to a queue, or start it when it is ready")
        #expect(!operation.isFinished)
    }

    @Test func startingOneWhoseOwnConditionIsFalseIsRefusedWithThatReason() {
        // Safety: adds nothing to its superclass.
        final class Unready: Operation, @unchecked Sendable {
            override var isReady: Bool { false }
        }
        let operation = Unready()
        operation.name = "a"
        #expect(
            message { try operation.tryStart() }
                == "a cannot start: its isReady is false; add it to a queue, or start it when it is ready")
    }

    @Test func trapsSayWhoseTheyAre() async {
        let wrongThread = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let simulation = Engine.Simulation(seed: 1)
            TestThread { OperationQueue(engine: simulation.engine).addOperation {} }.join()
        }
        let nothingInFlight = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = OperationQueue().map(0..<1, inFlight: 0) { $0 }
        }
        for (outcome, text) in [
            (wrongThread, "opscript: a simulated engine was used on another thread"),
            (nothingInFlight, "opscript: inFlight must be at least 1"),
        ] {
            let said = String(decoding: outcome?.standardErrorContent ?? [], as: UTF8.self)
            #expect(said.contains(text), "\(said)")
        }
    }

    @Test func startingOneThatIsInAQueueIsRefused() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        queue.isSuspended = true
        let operation = named("a")
        queue.addOperation(operation)
        #expect(message { try operation.tryStart() } == "a cannot be started by hand: it is in a queue, which starts it")
        #expect(
            message { try queue.tryAddOperation(operation) }
                == "a cannot be added: it is already in a queue; an operation can be added once")
        #expect(queue.operationCount == 1)
    }

    @Test func startingAnExecutingOneIsRefused() {
        let log = Log<String>()
        // Safety: the log has a lock.
        final class Restarting: Operation, @unchecked Sendable {
            let log: Log<String>
            init(log: Log<String>) { self.log = log }
            override func main() {
                do { try tryStart() } catch { log.append("\(error)") }
                do { try OperationQueue(engine: Engine(workerCount: 1)).tryAddOperation(self) } catch { log.append("\(error)") }
            }
        }
        let operation = Restarting(log: log)
        operation.name = "a"
        operation.start()
        #expect(
            log.entries == [
                "a cannot start: it is executing; an operation runs once, make a new one",
                "a cannot be added: it is executing; add it instead of starting it",
            ])
    }

    @Test func aBatchWithOneBadMemberAddsNothing() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        queue.isSuspended = true
        let (good, finished) = (named("good"), named("finished"))
        finished.start()
        #expect(throws: OperationError.self) { try queue.tryAddOperations([good, finished], waitUntilFinished: false) }
        #expect(queue.operationCount == 0)
        #expect(throws: OperationError.self) { try queue.tryAddOperations([good, good], waitUntilFinished: false) }
        #expect(queue.operationCount == 0)
        #expect(message { try queue.tryAddOperations([good], waitUntilFinished: false) } == "no error")
        #expect(queue.operationCount == 1)
    }

    @Test func blocksCannotBeAddedAfterwards() {
        let operation = named("a")
        operation.start()
        #expect(throws: OperationError.self) { try operation.tryAddExecutionBlock {} }
    }

    @Test func onlyMinusOneIsANegativeMaximum() throws {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        try queue.trySetMaxConcurrentOperationCount(-1)
        #expect(throws: OperationError.self) { try queue.trySetMaxConcurrentOperationCount(-2) }
        #expect(queue.maxConcurrentOperationCount == -1)
    }

    @Test func dependingOnOneselfIsRefused() {
        let operation = named("a")
        #expect(message { try operation.tryAddDependency(operation) } == "dependency cycle: a → a; an operation cannot depend on itself")
    }

    @Test func aCycleIsRefusedWithItsPath() throws {
        let (a, b, c) = (named("a"), named("b"), named("c"))
        try a.tryAddDependency(b)
        try b.tryAddDependency(c)
        #expect(message { try c.tryAddDependency(a) } == "dependency cycle: c → a → b → c")
        #expect(c.dependencies.isEmpty)
    }

    @Test func waitingForOneselfIsRefused() {
        let log = Log<String>()
        // Safety: the log has a lock.
        final class Waiting: Operation, @unchecked Sendable {
            let log: Log<String>
            init(log: Log<String>) { self.log = log }
            override func main() {
                do { try tryWaitUntilFinished() } catch { log.append("\(error)") }
                do { try OperationQueue.current?.tryWaitUntilAllOperationsAreFinished() } catch { log.append("\(error)") }
            }
        }
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        let operation = Waiting(log: log)
        operation.name = "a"
        queue.addOperations([operation], waitUntilFinished: true)
        let expected = "a waits for itself; wait for it on another thread, or make the rest an operation that depends on it"
        #expect(log.entries == [expected, expected])
    }

    @Test func startingAFinishedOneDoesNothing() {
        let log = Log<Int>()
        let operation = BlockOperation { log.append(1) }
        operation.start()
        operation.start()
        let cancelled = AsyncOperation()
        cancelled.cancel()
        cancelled.start()
        cancelled.start()
        #expect(log.entries == [1] && cancelled.isFinished)
    }

    @Test func aCompletionBlockThatComesTooLateIsRefused() {
        let operation = named("a")
        operation.start()
        #expect(
            message { try operation.trySetCompletionBlock {} }
                == "the completion block of a cannot be set: it has finished; set the block before")
    }

    @Test func misuseTrapsWithTheMessage() async {
        let outcome = await #expect(processExitsWith: .failure) {
            let operation = BlockOperation {}
            operation.addDependency(BlockOperation {})
            operation.start()
        }
        // The process must trap, not run into its time limit.
        #expect(outcome?.exitStatus != .signal(SIGALRM))
    }

    @Test func aWaitInFrontOfABarrierForWhatIsBehindItEndsTheProcess() async {
        await #expect(processExitsWith: .failure) {
            let engine = Engine(workerCount: 1), queue = OperationQueue(engine: engine)
            queue.addOperation {
                let later = BlockOperation {}
                queue.addBarrierBlock {}
                queue.addOperation(later)
                later.waitUntilFinished()
            }
            queue.waitUntilAllOperationsAreFinished()
        }
    }
}
