let misuseCases = [
    Case(2, "starting a finished one does nothing") {
        let log = Log<Int>()
        let operation = BlockOperation { log.append(1) }
        operation.start()
        operation.start()
        try expect(log.count == 1, "it ran \(log.count) times")
    },
    Case(2, "starting an executing one is refused", traps: true) {
        // Safety: locks guard its properties, or only one thread at a time uses them.
        final class Restarting: Operation, @unchecked Sendable { override func main() { start() } }
        Restarting().start()
    },
    Case(2, "starting one that waits for a dependency is refused", traps: true) {
        let operation = BlockOperation {}
        operation.addDependency(BlockOperation {})
        operation.start()
    },
    Case(2, "starting one that is in a queue is refused", traps: true) {
        let queue = OperationQueue()
        queue.isSuspended = true
        let operation = BlockOperation {}
        queue.addOperation(operation)
        operation.start()
    },
    Case(2, "adding one that is in a queue is refused", traps: true) {
        let queue = OperationQueue()
        queue.isSuspended = true
        let operation = BlockOperation {}
        queue.addOperation(operation)
        OperationQueue().addOperation(operation)
    },
    Case(2, "adding a finished one is refused", traps: true) {
        let operation = BlockOperation {}
        operation.start()
        OperationQueue().addOperation(operation)
    },
    Case(2, "adding a block to a finished one is refused", traps: true) {
        let operation = BlockOperation {}
        operation.start()
        operation.addExecutionBlock {}
    },
    Case(2, "depending on oneself is refused", traps: true) {
        let queue = OperationQueue()
        let operation = BlockOperation {}
        operation.addDependency(operation)
        queue.addOperation(operation)
        queue.waitUntilAllOperationsAreFinished()
    },
    Case(2, "a negative maximum other than -1 is refused", traps: true) {
        OperationQueue().maxConcurrentOperationCount = -2
    },
]

let observationCases = [
    Case(31, "flags can be observed, with old and new values") {
        let log = Log<String>()
        let operation = BlockOperation {}
        let observations = try observeFlags(operation) { name, old, new in log.append("\(name) \(old) \(new)") }
        operation.start()
        let expected = ["executing false true", "executing true false", "finished false true"]
        try expect(log.entries == expected, "the changes were \(log.entries)")
        withExtendedLifetime(observations) {}
    },
    Case(31, "cancelling can be observed") {
        let log = Log<String>()
        let operation = BlockOperation {}
        let observations = try observeFlags(operation) { name, old, new in log.append("\(name) \(old) \(new)") }
        operation.cancel()
        operation.start()
        try expect(log.entries == ["cancelled false true", "finished false true"], "the changes were \(log.entries)")
        withExtendedLifetime(observations) {}
    },
    Case(32, "the changes of operations in a queue arrive in order, each once") {
        let queue = OperationQueue()
        for _ in 0..<500 {
            let log = Log<String>()
            let done = Gate()
            let operation = BlockOperation {}
            let observations = try observeFlags(operation) { name, _, new in
                log.append("\(name) \(new)")
                if name == "finished" { done.open() }
            }
            queue.addOperation(operation)
            done.wait()
            try expect(log.entries == ["executing true", "executing false", "finished true"], "the changes were \(log.entries)")
            withExtendedLifetime(observations) {}
        }
    },
]
