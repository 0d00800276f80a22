import OpEngine
import TestSupport
import Testing

@Suite struct SimulationTests {
    private func order(seed: UInt64) -> [Int] {
        let simulation = Engine.Simulation(seed: seed)
        let queues = (0..<4).map { _ in OperationQueue(engine: simulation.engine) }
        let log = Log<Int>()
        for index in 0..<40 { queues[index % 4].addOperation { log.append(index) } }
        #expect(log.entries.isEmpty)
        while simulation.step() {}
        return log.entries
    }

    @Test func theSeedDecidesTheOrderBetweenQueues() {
        #expect(order(seed: 1) == order(seed: 1) && order(seed: 1) != order(seed: 2))
        let first = order(seed: 3).filter { $0 % 4 == 0 }
        #expect(first == first.sorted())
    }

    @Test func nothingRunsUntilAStepIsTaken() {
        let simulation = Engine.Simulation(seed: 1)
        let queue = OperationQueue(engine: simulation.engine)
        let operations = (0..<3).map { _ in BlockOperation {} }
        queue.addOperations(operations, waitUntilFinished: false)
        #expect(queue.operationCount == 3)
        #expect(simulation.step() && operations[0].isFinished && queue.operationCount == 2)
        queue.waitUntilAllOperationsAreFinished()
        #expect(!simulation.step() && operations.allSatisfy { $0.outcome == .succeeded } && simulation.engine.threadCount == 0)
    }

    @Test func aDeadlinePassesWithoutWaiting() throws {
        let simulation = Engine.Simulation(seed: 1)
        let queue = OperationQueue(engine: simulation.engine)
        let download = AsyncOperation()
        queue.addOperation(download)
        let begin = simulation.now
        #expect(try !download.tryWaitUntilFinished(until: begin + .seconds(3600)))
        #expect(download.isExecuting && simulation.now == begin + .seconds(3600))
        simulation.advance(by: .seconds(1))
        #expect(try !queue.tryWaitUntilAllOperationsAreFinished(until: begin + .seconds(3601)))
        download.finish()
        #expect(try queue.tryWaitUntilAllOperationsAreFinished(until: begin))
    }

    // Safety: `@unchecked Sendable` because nothing is added to its superclass.
    private final class Subclassed: BlockOperation, @unchecked Sendable {}

    @Test(arguments: [BlockOperation(), Subclassed()])
    func aDeadlinePassesWithoutWaitingInACompletionBlock(operation: Operation) throws {
        let simulation = Engine.Simulation(seed: 1)
        let queue = OperationQueue(engine: simulation.engine)
        let (download, alone) = (AsyncOperation(), BlockOperation {})
        let deadline = simulation.now + .seconds(36000)
        let log = Log<Bool>()
        operation.completionBlock = {
            log.append((try? download.tryWaitUntilFinished(until: deadline)) == false)
            log.append((try? alone.tryWaitUntilFinished(until: deadline + .seconds(1))) == false)
            log.append((try? queue.tryWaitUntilAllOperationsAreFinished(until: deadline + .seconds(2))) == false)
        }
        queue.addOperations([operation, download], waitUntilFinished: false)
        while simulation.step() {}
        #expect(log.entries == [true, true, true] && simulation.now == deadline + .seconds(2))
        download.finish()
    }

    @Test func anOperationThatWaitsLetsOthersRun() {
        let simulation = Engine.Simulation(seed: 1)
        let queue = OperationQueue(engine: simulation.engine)
        let log = Log<String>()
        let onMain = BlockOperation { log.append("main \(OperationQueue.current === simulation.engine.mainQueue)") }
        let inner = BlockOperation { log.append("inner \(OperationQueue.current === queue)") }
        inner.addDependency(onMain)
        let outer = BlockOperation {
            queue.addOperation(inner)
            inner.waitUntilFinished()
            log.append("outer")
        }
        simulation.engine.mainQueue.addOperation(onMain)
        queue.addOperation(outer)
        outer.waitUntilFinished()
        #expect(log.entries == ["main true", "inner true", "outer"])
    }

    @Test func whatNothingCanEndIsRefused() {
        let simulation = Engine.Simulation(seed: 1)
        let queue = OperationQueue(engine: simulation.engine)
        queue.isSuspended = true
        let operation = BlockOperation {}
        queue.addOperation(operation)
        #expect(throws: OperationError.self) { try operation.tryWaitUntilFinished() }
        #expect(simulation.engine.shutdown(deadline: .seconds(1)).isEmpty && operation.outcome == .cancelled)
    }
}
