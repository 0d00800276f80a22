let cancellingCases = [
    Case(12, "cancelling a finished operation does nothing") {
        let operation = BlockOperation {}
        operation.start()
        operation.cancel()
        try expect(!operation.isCancelled, "isCancelled became true")
    },
    Case(12, "a cancelled one that waits for a dependency becomes ready and ends without main") {
        let queue = OperationQueue()
        let log = Log<String>()
        let never = BlockOperation {}
        let operation = BlockOperation { log.append("ran") }
        operation.addDependency(never)
        queue.addOperation(operation)
        giveOthersTime()
        operation.cancel()
        try expect(operation.isReady, "isReady is false")
        operation.waitUntilFinished()
        try expect(log.count == 0, "it ran")
        try expect(operation.dependencies == [never], "its dependencies changed")
    },
    Case(12, "cancelling an executing one sets only the flag") {
        let queue = OperationQueue()
        let (began, mayEnd) = (Gate(), Gate())
        let operation = BlockOperation {
            began.open()
            mayEnd.wait()
        }
        queue.addOperation(operation)
        began.wait()
        operation.cancel()
        try expect(operation.isCancelled && operation.isExecuting && !operation.isFinished, "the flags are wrong")
        mayEnd.open()
        operation.waitUntilFinished()
        queue.waitUntilAllOperationsAreFinished()
    },
    Case(13, "cancelled outside of a queue it is not finished until it is started") {
        let operation = BlockOperation {}
        operation.cancel()
        try expect(!operation.isFinished, "it has finished")
        let queue = OperationQueue()
        queue.addOperations([operation], waitUntilFinished: true)
        try expect(operation.isFinished, "its queue did not finish it")
    },
    Case(13, "cancelled in a suspended queue it is counted until the queue resumes") {
        let queue = OperationQueue()
        queue.isSuspended = true
        let operation = BlockOperation {}
        queue.addOperation(operation)
        operation.cancel()
        giveOthersTime()
        try expect(queue.operationCount == 1 && !operation.isFinished, "it has left")
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        try expect(operation.isFinished, "it has not finished")
    },
    Case(14, "cancelAllOperations reaches what waits and what executes") {
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 1
        let (began, mayEnd) = (Gate(), Gate())
        let log = Log<String>()
        let executing = BlockOperation {
            began.open()
            mayEnd.wait()
        }
        let waiting = (0..<20).map { _ in BlockOperation { log.append("ran") } }
        waiting[3].addDependency(waiting[4])
        queue.addOperations([executing] + waiting, waitUntilFinished: false)
        began.wait()
        queue.cancelAllOperations()
        try expect(executing.isCancelled && waiting.allSatisfy { $0.isCancelled }, "some are not cancelled")
        mayEnd.open()
        queue.waitUntilAllOperationsAreFinished()
        try expect(log.count == 0, "\(log.count) ran")
    },
    Case(14, "cancelAllOperations reaches the main queue") {
        let log = Log<String>()
        let operations = (0..<3).map { _ in BlockOperation { log.append("ran") } }
        OperationQueue.main.addOperations(operations, waitUntilFinished: false)
        OperationQueue.main.cancelAllOperations()
        try expect(operations.allSatisfy { $0.isCancelled }, "some are not cancelled")
        runMainQueue(until: { operations.allSatisfy { $0.isFinished } })
        try expect(log.count == 0, "\(log.count) ran")
    },
    Case(14, "a pending barrier still runs in its place after cancelAllOperations") {
        let queue = OperationQueue()
        queue.isSuspended = true
        let log = Log<String>()
        queue.addOperation { log.append("before") }
        queue.addBarrierBlock { log.append("barrier") }
        queue.cancelAllOperations()
        queue.addOperation { log.append("after") }
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        try expect(log.entries == ["barrier", "after"], "what ran: \(log.entries)")
    },
]

let completionCases = [
    Case(15, "the completion block runs once, after isFinished") {
        let queue = OperationQueue()
        let (log, done) = (Log<Bool>(), Gate())
        for _ in 0..<200 {
            let operation = BlockOperation {}
            operation.completionBlock = { [unowned operation] in
                log.append(operation.isFinished)
                done.open()
            }
            queue.addOperation(operation)
            done.wait()
            withExtendedLifetime(operation) {}
        }
        giveOthersTime()
        try expect(log.count == 200 && !log.entries.contains(false), "it ran \(log.count) times for 200")
    },
    Case(15, "the completion block of a cancelled operation runs") {
        let done = Gate()
        let operation = BlockOperation {}
        operation.completionBlock = { done.open() }
        operation.cancel()
        operation.start()
        done.wait()
    },
    Case(15, "the completion block is released before it is called") {
        let (log, done) = (Log<Bool>(), Gate())
        let operation = BlockOperation {}
        operation.completionBlock = { [unowned operation] in
            log.append(operation.completionBlock == nil)
            done.open()
        }
        operation.start()
        done.wait()
        try expect(log.entries == [true], "completionBlock is still set")
        withExtendedLifetime(operation) {}
    },
    Case(15, "an operation that its completion block refers to is released") {
        weak var leaked: Operation?
        let queue = OperationQueue()
        let done = Gate()
        do {
            let operation = BlockOperation {}
            leaked = operation
            operation.completionBlock = {
                _ = operation.isFinished
                done.open()
            }
            queue.addOperation(operation)
        }
        done.wait()
        queue.waitUntilAllOperationsAreFinished()
        for _ in 0..<20 where leaked != nil { giveOthersTime() }
        try expect(leaked == nil, "it leaks")
    },
    Case(15, "a completion block may use its queue") {
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 1
        let done = Gate()
        let operation = BlockOperation {}
        operation.completionBlock = {
            queue.cancelAllOperations()
            queue.isSuspended = false
            queue.addOperation { done.open() }
        }
        queue.addOperation(operation)
        done.wait()
        queue.waitUntilAllOperationsAreFinished()
    },
]
