let misuseCases = [
    Case(2, "starting twice is refused", traps: true) {
        let operation = BlockOperation {}
        operation.start()
        operation.start()
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
    Case(2, "setting the completion block of a finished one is refused", traps: true) {
        let operation = BlockOperation {}
        operation.start()
        operation.completionBlock = {}
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
    Case(31, "isFinished can be observed, with old and new values") {
        let log = Log<String>()
        let operation = BlockOperation {}
        let observation = try observeFinished(operation) { old, new in log.append("\(old) \(new)") }
        operation.start()
        try expect(log.entries == ["false true"], "the changes were \(log.entries)")
        withExtendedLifetime(observation) {}
    }
]
