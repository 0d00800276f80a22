let barrierCases = [
    Case(20, "a barrier runs after what came before and before what comes after") {
        let queue = OperationQueue()
        let log = Log<String>()
        queue.isSuspended = true
        for _ in 0..<50 { queue.addOperation { log.append("before") } }
        queue.addBarrierBlock { log.append("barrier") }
        for _ in 0..<50 {
            let operation = BlockOperation { log.append("after") }
            operation.queuePriority = .veryHigh
            queue.addOperation(operation)
        }
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        try expect(
            log.entries == Array(repeating: "before", count: 50) + ["barrier"] + Array(repeating: "after", count: 50),
            "the order is another")
    },
    Case(20, "on an empty queue a barrier runs, and is waited for") {
        for _ in 0..<100 {
            let queue = OperationQueue()
            let log = Log<Int>()
            queue.addBarrierBlock { log.append(1) }
            queue.waitUntilAllOperationsAreFinished()
            try expect(log.count == 1, "the wait returned before it had run")
        }
    },
    Case(20, "what follows a barrier on an empty queue waits for it") {
        let queue = OperationQueue()
        let log = Log<String>()
        let (began, mayEnd) = (Gate(), Gate())
        queue.addBarrierBlock {
            began.open()
            mayEnd.wait()
            log.append("barrier")
        }
        let after = BlockOperation { log.append("after") }
        queue.addOperation(after)
        began.wait()
        giveOthersTime()
        mayEnd.open()
        after.waitUntilFinished()
        queue.waitUntilAllOperationsAreFinished()
        try expect(log.entries == ["barrier", "after"], "the order was \(log.entries)")
    },
    Case(20, "a barrier of a suspended queue waits until it resumes") {
        let queue = OperationQueue()
        queue.isSuspended = true
        let log = Log<String>()
        queue.addBarrierBlock { log.append("barrier") }
        giveOthersTime()
        try expect(log.count == 0, "it ran in a suspended queue")
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        try expect(log.count == 1, "it did not run")
    },
    Case(20, "a barrier of the main queue keeps its place") {
        let queue = OperationQueue.main
        let log = Log<String>()
        queue.addOperation { log.append("before") }
        queue.addBarrierBlock { log.append(OperationQueue.current == queue ? "barrier" : "barrier elsewhere") }
        queue.addOperation { log.append("after") }
        runMainQueue(until: { log.entries.contains("after") && log.count == 3 })
        try expect(log.entries == ["before", "barrier", "after"], "the order was \(log.entries)")
    },
    Case(20, "in a barrier the current queue is known") {
        let queue = OperationQueue()
        let log = Log<Bool>()
        queue.addOperation {}
        let done = Gate()
        queue.addBarrierBlock {
            log.append(OperationQueue.current === queue)
            done.open()
        }
        done.wait()
        try expect(log.entries == [true], "it is another, or nil")
    },
    Case(20, "many barriers in a row run in order") {
        let queue = OperationQueue()
        let log = Log<Int>()
        let done = Gate()
        for index in 0..<500 { queue.addBarrierBlock { log.append(index) } }
        queue.addOperation { done.open() }
        done.wait()
        try expect(log.entries == Array(0..<500), "\(log.count) of 500 ran, or in another order")
    },
]

let progressCases = [
    Case(21, "progress counts additions and finishes") {
        let queue = OperationQueue()
        beginProgress(of: queue, expecting: 20)
        for _ in 0..<20 { queue.addOperation {} }
        queue.waitUntilAllOperationsAreFinished()
        let (completed, total) = try progress(of: queue)
        try expect(completed == 20 && total == 20, "\(completed) of \(total), not 20 of 20")
    },
    Case(21, "progress counts without opting in") {
        let queue = OperationQueue()
        for _ in 0..<20 { queue.addOperation {} }
        queue.waitUntilAllOperationsAreFinished()
        let (completed, total) = try progress(of: queue)
        try expect(completed == 20 && total == 20, "\(completed) of \(total), not 20 of 20")
    },
    Case(21, "progress counts cancelled operations") {
        let queue = OperationQueue()
        beginProgress(of: queue, expecting: 20)
        queue.isSuspended = true
        for _ in 0..<20 { queue.addOperation {} }
        for operation in queue.operations.prefix(10) { operation.cancel() }
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        let (completed, total) = try progress(of: queue)
        try expect(completed == 20 && total == 20, "\(completed) of \(total), not 20 of 20")
    },
    Case(21, "progress counts asynchronous operations") {
        final class Work: Operation {
            private let finished = Locked(false)
            override var isAsynchronous: Bool { true }
            override var isFinished: Bool { finished.withLock { $0 } }
            override func start() {
                willChangeValue(forKey: "isFinished")
                finished.withLock { $0 = true }
                didChangeValue(forKey: "isFinished")
            }
        }
        let queue = OperationQueue()
        beginProgress(of: queue, expecting: 20)
        for _ in 0..<20 { queue.addOperation(Work()) }
        queue.waitUntilAllOperationsAreFinished()
        let (completed, total) = try progress(of: queue)
        try expect(completed == 20 && total == 20, "\(completed) of \(total), not 20 of 20")
    },
]
