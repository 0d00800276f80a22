import OpEngine
import TestSupport
import Testing

@Suite struct StateTests {
    @Test func aNewOperationIsReadyAndNothingElse() {
        let operation = Operation()
        #expect(operation.isReady)
        #expect(!operation.isExecuting && !operation.isFinished && !operation.isCancelled && !operation.isAsynchronous)
        #expect(operation.outcome == nil)
    }

    @Test func startedByHandItRunsHereAndHasFinishedOnReturn() {
        let log = Log<String>()
        let operation = BlockOperation { log.append("ran \(Operation.current?.isExecuting == true)") }
        operation.start()
        #expect(log.entries == ["ran true"])
        #expect(operation.isFinished && !operation.isExecuting && operation.isReady)
        #expect(operation.outcome == .succeeded)
        #expect(Operation.current == nil)
    }

    @Test func aCancelledOneIsFinishedWithoutItsBody() {
        let log = Log<String>()
        let operation = BlockOperation { log.append("ran") }
        operation.cancel()
        #expect(operation.isCancelled && operation.isReady && !operation.isFinished)
        operation.start()
        #expect(log.entries.isEmpty)
        #expect(operation.isFinished && operation.outcome == .cancelled)
    }

    @Test func cancellingAFinishedOneDoesNothing() {
        let operation = BlockOperation {}
        operation.start()
        operation.cancel()
        #expect(!operation.isCancelled && operation.outcome == .succeeded)
    }

    @Test func cancellingAnExecutingOneOnlySetsTheFlag() {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        let began = Gate()
        let mayEnd = Gate()
        let operation = BlockOperation {
            began.open()
            mayEnd.wait()
        }
        queue.addOperation(operation)
        began.wait()
        operation.cancel()
        #expect(operation.isCancelled && operation.isExecuting && !operation.isFinished)
        mayEnd.open()
        operation.waitUntilFinished()
        #expect(operation.outcome == .cancelled)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func asynchronousOperationsExecuteUntilSomebodyFinishesThem() {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        let began = Gate()
        // Safety: a gate is safe from every thread.
        final class Download: AsyncOperation, @unchecked Sendable {
            let began: Gate
            init(began: Gate) { self.began = began }
            override func main() { began.open() }
        }
        let operation = Download(began: began)
        queue.addOperation(operation)
        began.wait()
        #expect(operation.isExecuting && operation.isAsynchronous && queue.operationCount == 1)
        operation.finish()
        #expect(operation.isFinished && queue.operationCount == 0)
        operation.finish(with: OperationError.dependsOnItself(operation: "late"))
        #expect(operation.error == nil && operation.outcome == .succeeded)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }
}
