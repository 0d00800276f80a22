import Dispatch
import OpEngine
import TestLimits
import TestSupport
import Testing

@Suite struct FinishingTests {
    static let all: [@Sendable () -> any Ending] = [
        { StateWithObservers() }, { StateAfterMain() }, { SettableFlags() }, { SettableFlagsWithStart() }, { ObservedVariables() },
        { StateBehindBarriers() },
    ]

    @Test("An operation ends once, when its work has ended, and not before", arguments: all)
    func ends(make: @Sendable () -> any Ending) {
        let queue = OperationQueue()
        let (log, completed) = (Log<String>(), Gate())
        let operation = make()
        operation.completionBlock = {
            log.append("completed")
            completed.open()
        }
        let dependent = BlockOperation { [unowned operation] in log.append("dependent \(operation.isFinished)") }
        dependent.addDependency(operation)
        queue.addOperations([dependent, operation], waitUntilFinished: false)
        // Another operation overtakes it.
        queue.addOperations([BlockOperation {}], waitUntilFinished: true)
        #expect(log.entries.isEmpty && queue.operationCount == 2)
        operation.mayEnd.open()
        queue.waitUntilAllOperationsAreFinished()
        completed.wait()
        #expect(log.entries.sorted() == ["completed", "dependent true"] && operation.starts.count == 1)
        #expect(operation.isFinished && !operation.isExecuting && !operation.isCancelled)
    }

    @Test("An operation that is cancelled before it starts leaves its queue without working", arguments: all)
    func isCancelledBefore(make: @Sendable () -> any Ending) {
        let queue = OperationQueue()
        queue.isSuspended = true
        let operation = make()
        let completed = Gate()
        operation.completionBlock = { completed.open() }
        queue.addOperation(operation)
        operation.cancel()
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        completed.wait()
        #expect(operation.starts.count == 0 && operation.isCancelled)
    }

    @Test("Hundreds of operations end in a queue of limited width, in whatever order their work ends", arguments: all)
    func manyEnd(make: @Sendable () -> any Ending) {
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 4
        let operations = (0..<200).map { _ in make() }
        for (index, operation) in operations.enumerated() {
            if index > 0, index % 10 == 0 { operation.addDependency(operations[index - 1]) }
            operation.mayEnd.open()
        }
        queue.addOperations(operations, waitUntilFinished: true)
        #expect(queue.operationCount == 0 && operations.allSatisfy { $0.isFinished && $0.starts.count == 1 })
    }

    @Test("An operation that `cancel` finishes ends at once, and the later end of its work does nothing", .endsWithin(seconds: 60))
    func isFinishedByCancel() {
        let queue = OperationQueue()
        let operation = StateBehindBarriers()
        let completed = Log<Int>()
        operation.completionBlock = { completed.append(1) }
        queue.addOperation(operation)
        while operation.starts.count == 0 { queue.addOperations([BlockOperation {}], waitUntilFinished: true) }
        while !operation.isExecuting { queue.addOperations([BlockOperation {}], waitUntilFinished: true) }
        operation.cancel()
        queue.waitUntilAllOperationsAreFinished()
        operation.mayEnd.open()
        #expect(operation.isFinished && operation.isCancelled)
    }

    @Test("An operation that starts a task ends when the task ends", arguments: [false, true])
    func endsWithItsTask(isCancelled: Bool) async {
        let queue = OperationQueue()
        let operation = TaskBased()
        queue.isSuspended = true
        queue.addOperation(operation)
        if isCancelled { operation.cancel() }
        queue.isSuspended = false
        operation.mayEnd.open()
        try? await operation.finished()
        #expect(operation.isFinished && operation.starts.count == (isCancelled ? 0 : 1))
    }

    @Test("The completion block that the class sets delivers the result and removes itself")
    func deliversItsResult() {
        let queue = OperationQueue()
        let delivered = Gate()
        let log = Log<Int>()
        let operation = ResultOperation<Int>()
        operation.onResult = { result in
            log.append((try? result.get()) ?? -1)
            delivered.open()
        }
        queue.addOperation(operation)
        operation.finish(with: .success(42))
        delivered.wait()
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == [42] && operation.outcome == "finished" && operation.error == nil)
    }
}
