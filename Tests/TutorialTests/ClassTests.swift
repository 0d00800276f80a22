import Dispatch
import Glibc
import OpEngine
import TestLimits
import TestSupport
import Testing

@Suite(.endsWithin(seconds: 60)) struct ClassTests {
    private func queue() -> OperationQueue { OperationQueue(engine: Engine(workerCount: 2)) }

    // MARK: Synchronous classes

    @Test func mySyncOperationPrintsBeforeStartReturns() {
        let operation = MySyncOperation(str: "sync by hand", count: 3)
        operation.start()
        #expect(Printed.count(of: "sync by hand") == 3 && operation.isFinished)
        let queue = queue()
        queue.addOperations([MySyncOperation(str: "sync in a queue", count: 3)], waitUntilFinished: true)
        #expect(Printed.count(of: "sync in a queue") == 3)
    }

    @Test func nonConcurrentOperationRuns() {
        let operation = NonConcurrentOperation(data: nil)
        queue().addOperations([operation], waitUntilFinished: true)
        #expect(operation.outcome == .succeeded && !operation.isAsynchronous)
    }

    @Test func aLoopThatLooksAtIsCancelledEnds() {
        let queue = queue()
        let operation = CancellableOperation(data: nil)
        queue.addOperation(operation)
        operation.hasBegun.wait()
        #expect(operation.isExecuting)
        operation.cancel()
        queue.waitUntilAllOperationsAreFinished()
        #expect(operation.outcome == .cancelled)
    }

    @Test func strangeAsyncOperationIsFinishedBeforeItHasPrinted() {
        let completed = Gate()
        let strangeOperation = StrangeAsyncOperation(str: "strange", count: 5)
        strangeOperation.completionBlock = {
            if strangeOperation.isFinished {
                completed.open()
            }
        }
        strangeOperation.start()
        completed.wait()
        #expect(Printed.count(of: "strange") == 0)
        strangeOperation.mayPrint.open()
        strangeOperation.hasPrinted.wait()
        #expect(Printed.count(of: "strange") == 5)
    }

    @Test func blockOperationRunsTheBlocksThatAreAddedLater() {
        let log = Log<Int>()
        let operation: BlockOperation = BlockOperation {
            log.append(1 + 2)
        }
        operation.addExecutionBlock {
            log.append(2 + 3)
        }
        let queue: OperationQueue = queue()
        queue.addOperation(operation)
        queue.addOperation {
            log.append(1)
        }
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries.sorted() == [1, 3, 5])
    }

    // MARK: Asynchronous classes

    @Test(arguments: [false, true]) func printingAsyncOperationIsFinishedWhenItHasPrinted(inQueue: Bool) {
        let queue = queue()
        let text = "printing \(inQueue)"
        let operation = FinishedByCancel.AsyncOperation(str: text, count: 5)
        let dependent = BlockOperation { print("after \(text): \(Printed.count(of: text))") }
        dependent.addDependency(operation)
        queue.addOperation(dependent)
        if inQueue { queue.addOperation(operation) } else { operation.start() }
        operation.step.open(5)
        dependent.waitUntilFinished()
        #expect(operation.isFinished && Printed.count(of: "after \(text): 5") == 1)
    }

    /// The end of the tutorial's script: `start()`, then `cancel()`, whose override finishes an operation that still works.
    @Test func printingAsyncOperationThatIsCancelledCompletesOnce() {
        let log = Log<Bool>()
        let completed = Gate()
        let operation = FinishedByCancel.AsyncOperation(str: "cancelled", count: 5)
        operation.completionBlock = {
            log.append(operation.isFinished)
            completed.open()
        }
        operation.start()
        #expect(operation.isExecuting && !operation.isFinished)
        operation.cancel()
        completed.wait()
        #expect(operation.isFinished && log.entries == [true])
        // The work goes on, and finishes the operation a second time.
        operation.step.open(5)
        while Printed.count(of: "cancelled") < 5 { sched_yield() }
        operation.waitUntilFinished()
        #expect(log.count == 1 && operation.outcome == .succeeded)
    }

    @Test func lateExecutingAsyncOperationEndsWhenItsWorkEnds() {
        final class Work: LateExecuting.AsyncOperation {
            let (hasStarted, mayEnd) = (Gate(), Gate())
            override func start() {
                super.start()
                hasStarted.open()
            }
            override func main() {
                DispatchQueue.global().async {
                    self.mayEnd.wait()
                    self.state = .finished
                }
            }
        }
        let queue = queue()
        let (first, second) = (Work(), Work())
        second.addDependency(first)
        #expect(!second.isReady)
        queue.addOperations([second, first], waitUntilFinished: false)
        first.hasStarted.wait()
        #expect(first.isExecuting && !first.isFinished)
        first.mayEnd.open()
        first.waitUntilFinished()
        second.hasStarted.wait()
        second.mayEnd.open()
        queue.waitUntilAllOperationsAreFinished()
        #expect(first.isFinished && second.isFinished)
    }

    /// `main` ends at once, and `start` announces afterwards that the operation executes. The first finish counts.
    @Test func lateExecutingAsyncOperationThatFinishesInMainLeavesItsQueue() {
        final class Work: LateExecuting.AsyncOperation {
            override func main() { state = .finished }
        }
        let queue = queue()
        let log = Log<String>()
        let work = Work()
        let completed = Gate()
        work.completionBlock = {
            log.append("completed")
            completed.open()
        }
        let dependent = BlockOperation { log.append("dependent") }
        dependent.addDependency(work)
        queue.addOperations([work, dependent], waitUntilFinished: true)
        queue.waitUntilAllOperationsAreFinished()
        completed.wait()
        #expect(log.entries.sorted() == ["completed", "dependent"] && work.outcome == .succeeded)
    }

    @Test func lateExecutingAsyncOperationThatIsCancelledInAQueueIsNeverStarted() {
        final class Work: LateExecuting.AsyncOperation {
            override func start() {
                print("a cancelled one was started")
                super.start()
            }
        }
        let queue = queue()
        queue.isSuspended = true
        let log = Log<String>()
        let work = Work()
        let completed = Gate()
        work.completionBlock = {
            log.append("completed")
            completed.open()
        }
        let dependent = BlockOperation { log.append("dependent") }
        dependent.addDependency(work)
        queue.addOperations([work, dependent], waitUntilFinished: false)
        work.cancel()
        completed.wait()
        #expect(work.isFinished && queue.operations == [dependent] && log.entries == ["completed"])
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == ["completed", "dependent"] && Printed.count(of: "a cancelled one was started") == 0)
    }

    @Test(arguments: [false, true]) func myOperationRunsOnAThreadOfItsOwn(inQueue: Bool) {
        let queue = queue()
        let operation = MyOperation()
        let completed = Gate()
        operation.completionBlock = { completed.open() }
        if inQueue { queue.addOperation(operation) } else { operation.start() }
        completed.wait()
        queue.waitUntilAllOperationsAreFinished()
        #expect(operation.isFinished)
    }

    @Test func myOperationThatIsCancelledIsFinishedByStart() {
        let queue = queue()
        let operation = MyOperation()
        operation.cancel()
        #expect(operation.isCancelled && !operation.isFinished)
        queue.addOperations([operation], waitUntilFinished: true)
        #expect(operation.isFinished && operation.outcome == .cancelled)
    }

    @Test func performOperationRunsWhatIsReady() {
        let runner = MyOperation()
        let synchronous = MySyncOperation(str: "performed", count: 2)
        #expect(!runner.performOperation(synchronous) && synchronous.isFinished && Printed.count(of: "performed") == 2)
        let asynchronous = MyOperation()
        let completed = Gate()
        asynchronous.completionBlock = { completed.open() }
        #expect(runner.performOperation(asynchronous))
        completed.wait()
        let waiting = BlockOperation {}
        waiting.addDependency(BlockOperation {})
        #expect(!runner.performOperation(waiting) && !waiting.isFinished)
        let cancelled = BlockOperation {}
        cancelled.cancel()
        #expect(runner.performOperation(cancelled) && runner.isFinished)
    }
}
