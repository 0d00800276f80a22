/// The order in which the operations of a serial queue ran. The queue is suspended until `body` has added them.
private func order(_ body: (OperationQueue, (String) -> BlockOperation) -> Void) -> [String] {
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = 1
    queue.isSuspended = true
    let log = Log<String>()
    body(queue) { name in BlockOperation { log.append(name) } }
    queue.isSuspended = false
    queue.waitUntilAllOperationsAreFinished()
    return log.entries
}

let orderCases = [
    Case(17, "first in, first out within a priority") {
        let names = (0..<100).map { "\($0)" }
        let ran = order { queue, make in for name in names { queue.addOperation(make(name)) } }
        try expect(ran == names, "the order was \(ran)")
    },
    Case(17, "higher priorities come first") {
        let ran = order { queue, make in
            for priority in [Operation.QueuePriority.veryLow, .low, .normal, .high, .veryHigh] {
                let operation = make("\(priority.rawValue)")
                operation.queuePriority = priority
                queue.addOperation(operation)
            }
        }
        try expect(ran == ["8", "4", "0", "-4", "-8"], "the order was \(ran)")
    },
    Case(17, "priority does not beat readiness") {
        let ran = order { queue, make in
            let (low, high) = (make("low"), make("high"))
            low.queuePriority = .veryLow
            high.queuePriority = .veryHigh
            high.addDependency(low)
            queue.addOperations([high, low], waitUntilFinished: false)
        }
        try expect(ran == ["low", "high"], "the order was \(ran)")
    },
    Case(17, "a changed priority of a waiting operation acts at once") {
        let ran = order { queue, make in
            let all = ["a", "b", "c"].map(make)
            queue.addOperations(all, waitUntilFinished: false)
            all[2].queuePriority = .high
            all[0].queuePriority = .low
        }
        try expect(ran == ["c", "b", "a"], "the order was \(ran)")
    },
    Case(17, "a changed priority acts on operations with a quality of service too") {
        let ran = order { queue, make in
            let all = ["a", "b", "c"].map(make)
            for operation in all { operation.qualityOfService = .utility }
            queue.addOperations(all, waitUntilFinished: false)
            all[2].queuePriority = .high
            all[0].queuePriority = .low
        }
        try expect(ran == ["c", "b", "a"], "the order was \(ran)")
    },
    Case(17, "a late important operation overtakes what waits") {
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 1
        let (log, began, mayEnd) = (Log<String>(), Gate(), Gate())
        queue.addOperation {
            began.open()
            mayEnd.wait()
        }
        began.wait()
        for index in 0..<5 { queue.addOperation { log.append("\(index)") } }
        let late = BlockOperation { log.append("late") }
        late.queuePriority = .veryHigh
        queue.addOperation(late)
        mayEnd.open()
        queue.waitUntilAllOperationsAreFinished()
        try expect(log.entries.first == "late", "the order was \(log.entries)")
    },
]

/// The largest number of operations that executed at the same time while `count` operations ran.
private func mostAtOnce(_ queue: OperationQueue, _ count: Int) -> Int {
    let running = Locked((now: 0, most: 0))
    for _ in 0..<count {
        queue.addOperation {
            running.withLock { running in
                running.now += 1
                running.most = max(running.most, running.now)
            }
            for _ in 0..<20 { running.withLock { _ in } }
            running.withLock { $0.now -= 1 }
        }
    }
    queue.waitUntilAllOperationsAreFinished()
    return running.withLock { $0.most }
}

let queueCases = [
    Case(18, "the default maximum is -1, the main queue's is 1") {
        try expect(OperationQueue.defaultMaxConcurrentOperationCount == -1, "the constant is not -1")
        try expect(OperationQueue().maxConcurrentOperationCount == -1, "a new queue's is not -1")
        try expect(OperationQueue.main.maxConcurrentOperationCount == 1, "the main queue's is not 1")
    },
    Case(18, "no more than the maximum execute") {
        for maximum in [1, 2, 3] {
            let queue = OperationQueue()
            queue.maxConcurrentOperationCount = maximum
            let most = mostAtOnce(queue, 1000)
            try expect(most <= maximum, "\(most) at once with a maximum of \(maximum)")
        }
    },
    Case(18, "a maximum of 0 runs nothing until it is raised") {
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 0
        let log = Log<Int>()
        queue.addOperation { log.append(1) }
        giveOthersTime()
        try expect(log.count == 0, "it ran")
        queue.maxConcurrentOperationCount = 1
        queue.waitUntilAllOperationsAreFinished()
        try expect(log.count == 1, "it did not run")
    },
    Case(18, "a raised maximum acts at once") {
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 1
        let (first, second) = (Gate(), Gate())
        queue.addOperation {
            first.open()
            second.wait()
        }
        queue.addOperation { second.open() }
        first.wait()
        queue.maxConcurrentOperationCount = 2
        queue.waitUntilAllOperationsAreFinished()
    },
    Case(19, "suspending stops new starts only") {
        let queue = OperationQueue()
        let (began, mayEnd, log) = (Gate(), Gate(), Log<Int>())
        let executing = BlockOperation {
            began.open()
            mayEnd.wait()
        }
        queue.addOperation(executing)
        began.wait()
        queue.isSuspended = true
        queue.addOperation { log.append(1) }
        mayEnd.open()
        executing.waitUntilFinished()
        giveOthersTime()
        try expect(log.count == 0, "a suspended queue started one")
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        try expect(log.count == 1, "it did not run")
    },
    Case(22, "operations are listed in order of addition") {
        let queue = OperationQueue()
        queue.isSuspended = true
        let all = (0..<50).map { index in
            let operation = BlockOperation {}
            operation.queuePriority = index % 2 == 0 ? .low : .high
            return operation
        }
        for operation in all { queue.addOperation(operation) }
        try expect(queue.operations == all && queue.operationCount == 50, "the order is another")
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
    },
    Case(22, "the count is 0 when waitUntilAllOperationsAreFinished returns") {
        let queue = OperationQueue()
        for _ in 0..<3000 {
            for _ in 0..<3 { queue.addOperation {} }
            queue.waitUntilAllOperationsAreFinished()
            try expect(queue.operationCount == 0, "\(queue.operationCount) are counted")
        }
    },
    Case(22, "an operation has left its queue when its own wait returns") {
        let queue = OperationQueue()
        for _ in 0..<3000 {
            let operation = BlockOperation {}
            queue.addOperation(operation)
            operation.waitUntilFinished()
            try expect(!queue.operations.contains(operation), "it is still listed")
        }
    },
    Case(27, "a dropped queue lives until its operations have ended") {
        weak var leaked: OperationQueue?
        let (began, mayEnd, ran) = (Gate(), Gate(), Gate())
        do {
            let queue = OperationQueue()
            leaked = queue
            queue.maxConcurrentOperationCount = 1
            queue.addOperation {
                began.open()
                mayEnd.wait()
            }
            queue.addOperation { ran.open() }
        }
        began.wait()
        mayEnd.open()
        ran.wait()
        for _ in 0..<20 where leaked != nil { giveOthersTime() }
        try expect(leaked == nil, "the queue leaks")
    },
    Case(27, "a dropped suspended queue goes with its operations") {
        weak var queueLeaked: OperationQueue?
        weak var operationLeaked: Operation?
        do {
            let queue = OperationQueue()
            queueLeaked = queue
            queue.isSuspended = true
            let operation = BlockOperation {}
            operationLeaked = operation
            queue.addOperation(operation)
        }
        for _ in 0..<20 where queueLeaked != nil || operationLeaked != nil { giveOthersTime() }
        try expect(queueLeaked == nil, "the queue leaks")
        try expect(operationLeaked == nil, "its operation leaks")
    },
]
