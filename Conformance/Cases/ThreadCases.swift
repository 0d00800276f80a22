import Glibc

let threadCases = [
    Case(23, "current is the main queue on the main thread, the own queue in an operation, else nil") {
        try expect(OperationQueue.current === OperationQueue.main, "on the main thread it is not the main queue")
        let queue = OperationQueue()
        let log = Log<String>()
        queue.addOperation { log.append(OperationQueue.current === queue ? "own" : "\(OperationQueue.current as Any)") }
        queue.waitUntilAllOperationsAreFinished()
        TestThread { log.append(OperationQueue.current == nil ? "nil" : "not nil") }.join()
        try expect(log.entries == ["own", "nil"], "in an operation and on another thread it is \(log.entries)")
    },
    Case(24, "the main queue runs on the main thread, one operation at a time, by priority") {
        let log = Log<String>()
        let here = pthread_self()
        for name in ["a", "b"] { OperationQueue.main.addOperation { log.append(pthread_self() == here ? name : "elsewhere") } }
        let important = BlockOperation { log.append("important") }
        important.queuePriority = .high
        OperationQueue.main.addOperation(important)
        runMainQueue(until: { log.count == 3 })
        try expect(log.entries == ["important", "a", "b"], "the order was \(log.entries)")
    },
    Case(26, "the quality of service is the one that was set, by default none") {
        let operation = Operation()
        try expect(operation.qualityOfService == .default, "an operation's default is \(operation.qualityOfService)")
        for value in [QualityOfService.userInteractive, .userInitiated, .utility, .background] {
            operation.qualityOfService = value
            try expect(operation.qualityOfService == value, "\(value) became \(operation.qualityOfService)")
            let queue = OperationQueue()
            queue.qualityOfService = value
            let log = Log<Int>()
            queue.addOperation { log.append(1) }
            queue.waitUntilAllOperationsAreFinished()
            try expect(queue.qualityOfService == value && log.count == 1, "a queue's \(value) is not kept")
        }
    },
    Case(30, "every method is safe from every thread") {
        let queue = OperationQueue()
        let log = Locked(0)
        let threads = (0..<4).map { _ in
            TestThread {
                for index in 0..<3000 {
                    let operation = BlockOperation { log.withLock { $0 += 1 } }
                    if index % 7 == 0 { operation.queuePriority = .high }
                    queue.addOperation(operation)
                    if index % 5 == 0 { queue.maxConcurrentOperationCount = index % 3 + 1 }
                    if index % 11 == 0 { _ = queue.operations.count }
                    if index % 13 == 0 { operation.queuePriority = .low }
                }
            }
        }
        for thread in threads { thread.join() }
        queue.waitUntilAllOperationsAreFinished()
        try expect(log.withLock { $0 } == 12_000, "\(log.withLock { $0 }) of 12000 ran")
    },
    Case(30, "an overridden getter may use the queue") {
        final class Curious: Operation {
            weak var home: OperationQueue?
            override var isReady: Bool {
                _ = home?.operations.count
                _ = dependencies
                return super.isReady
            }
            override var isFinished: Bool {
                _ = home?.operationCount
                return super.isFinished
            }
            override func cancel() {
                _ = home?.operations
                super.cancel()
            }
        }
        let queue = OperationQueue()
        for _ in 0..<200 {
            let operation = Curious()
            operation.home = queue
            queue.addOperation(operation)
        }
        queue.cancelAllOperations()
        queue.waitUntilAllOperationsAreFinished()
    },
]

let waitingCases = [
    Case(28, "200 operations that wait for another all start") {
        let (queue, other) = (OperationQueue(), OperationQueue())
        let started = Gate()
        let awaited = BlockOperation {}
        for _ in 0..<200 {
            queue.addOperation {
                started.open()
                awaited.waitUntilFinished()
            }
        }
        started.wait(200)
        other.addOperation(awaited)
        queue.waitUntilAllOperationsAreFinished()
    },
    Case(28, "operations that wait for operations do not starve") {
        let queue = OperationQueue()
        @Sendable func nested(_ depth: Int) {
            if depth == 0 { return }
            let inner = BlockOperation { nested(depth - 1) }
            queue.addOperation(inner)
            inner.waitUntilFinished()
        }
        for _ in 0..<20 { queue.addOperation { nested(20) } }
        queue.waitUntilAllOperationsAreFinished()
    },
    Case(28, "waiting on the main thread for what waits for the main queue ends") {
        let queue = OperationQueue()
        let log = Log<String>()
        let onMain = BlockOperation { log.append("main") }
        let onWorker = BlockOperation { log.append("worker") }
        onWorker.addDependency(onMain)
        queue.addOperation(onWorker)
        OperationQueue.main.addOperation(onMain)
        onWorker.waitUntilFinished()
        try expect(log.entries == ["main", "worker"], "the order was \(log.entries)")
    },
    Case(29, "a wait for the own queue is refused", traps: true) {
        let queue = OperationQueue()
        queue.addOperation { OperationQueue.current?.waitUntilAllOperationsAreFinished() }
        queue.waitUntilAllOperationsAreFinished()
    },
    Case(29, "a wait for oneself is refused", traps: true) {
        final class Waiting: Operation {
            override func main() { waitUntilFinished() }
        }
        OperationQueue().addOperations([Waiting()], waitUntilFinished: true)
    },
]
