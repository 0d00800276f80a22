import Glibc

/// Keeps its state as classes in tutorials do: in an enumeration, announced with string keys.
private class Announcing: Operation {
    enum Phase: String {
        case ready = "isReady"
        case executing = "isExecuting"
        case finished = "isFinished"
    }
    private let stored = Locked(Phase.ready)
    let starts = Log<Int>()
    var phase: Phase {
        get { stored.withLock { $0 } }
        set {
            let old = phase
            willChangeValue(forKey: newValue.rawValue)
            willChangeValue(forKey: old.rawValue)
            stored.withLock { $0 = newValue }
            didChangeValue(forKey: old.rawValue)
            didChangeValue(forKey: newValue.rawValue)
        }
    }
    override var isReady: Bool { super.isReady && phase == .ready }
    override var isExecuting: Bool { phase == .executing }
    override var isFinished: Bool { phase == .finished }
    override var isAsynchronous: Bool { true }
    override func start() {
        starts.append(1)
        if isCancelled {
            phase = .finished
            return
        }
        phase = .executing
        main()
    }
    override func cancel() {
        super.cancel()
        phase = .finished
    }
}

/// The other order that tutorials use: it calls `main` before it announces that it executes.
private final class LateExecuting: Announcing {
    override func start() {
        starts.append(1)
        if isCancelled {
            phase = .finished
            return
        }
        main()
        phase = .executing
    }
    override func main() { phase = .finished }
}

/// Decides by itself when it is ready.
private final class Readiness: Operation {
    private let allowed = Locked(false)
    override var isReady: Bool { super.isReady && allowed.withLock { $0 } }
    func allow() {
        willChangeValue(forKey: "isReady")
        allowed.withLock { $0 = true }
        didChangeValue(forKey: "isReady")
    }
}

let subclassCases = [
    Case(5, "an asynchronous subclass ends when it says so") {
        final class Work: Announcing {
            let (began, mayEnd) = (Gate(), Gate())
            override func main() {
                _ = TestThread {
                    self.began.open()
                    self.mayEnd.wait()
                    self.phase = .finished
                }
            }
        }
        let queue = OperationQueue()
        let work = Work()
        let log = Log<Bool>()
        let after = BlockOperation { log.append(work.isFinished) }
        after.addDependency(work)
        queue.addOperations([after, work], waitUntilFinished: false)
        work.began.wait()
        try expect(queue.operationCount == 2 && work.isExecuting, "it is not executing")
        work.mayEnd.open()
        queue.waitUntilAllOperationsAreFinished()
        try expect(log.entries == [true] && work.starts.count == 1, "its dependent ran \(log.count) times, start \(work.starts.count)")
    },
    Case(5, "executing announced after the end is accepted") {
        let queue = OperationQueue()
        let (work, completed) = (LateExecuting(), Gate())
        work.completionBlock = { completed.open() }
        let after = BlockOperation {}
        after.addDependency(work)
        queue.addOperations([work, after], waitUntilFinished: true)
        completed.wait()
        queue.waitUntilAllOperationsAreFinished()
        try expect(queue.operationCount == 0, "\(queue.operationCount) are left")
    },
    Case(5, "one that is finished before it started leaves its queue unstarted") {
        let queue = OperationQueue()
        queue.isSuspended = true
        let completed = Gate()
        let work = Announcing()
        work.completionBlock = { completed.open() }
        let after = BlockOperation {}
        after.addDependency(work)
        queue.addOperations([work, after], waitUntilFinished: false)
        work.cancel()
        completed.wait()
        try expect(!queue.operations.contains(work), "it is still in the suspended queue")
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        try expect(work.starts.count == 0, "it was started")
    },
    Case(5, "the first of two finishes wins") {
        final class Work: Announcing {
            override func main() {}
        }
        for _ in 0..<300 {
            let queue = OperationQueue()
            let (log, completed) = (Log<Int>(), Gate())
            let work = Work()
            work.completionBlock = {
                log.append(1)
                completed.open()
            }
            queue.addOperation(work)
            let thread = TestThread { work.cancel() }
            work.phase = .finished
            thread.join()
            completed.wait()
            queue.waitUntilAllOperationsAreFinished()
            try expect(log.count == 1 && queue.operationCount == 0, "completed \(log.count) times, \(queue.operationCount) left")
        }
    },
    Case(5, "an overridden isReady holds the operation until it is announced") {
        let queue = OperationQueue()
        let operation = Readiness()
        let other = BlockOperation {}
        queue.addOperations([operation, other], waitUntilFinished: false)
        other.waitUntilFinished()
        giveOthersTime()
        try expect(!operation.isFinished, "it ran although it was not ready")
        operation.allow()
        operation.waitUntilFinished()
    },
    Case(5, "an overridden isReady that changes at any moment is not missed") {
        let queue = OperationQueue()
        for _ in 0..<5000 {
            let operation = Readiness()
            let thread = TestThread { operation.allow() }
            queue.addOperation(operation)
            operation.waitUntilFinished()
            thread.join()
        }
    },
    Case(5, "a cancelled one needs no readiness of its own") {
        let queue = OperationQueue()
        let operation = Readiness()
        queue.addOperation(operation)
        operation.cancel()
        operation.waitUntilFinished()
    },
]

let blockCases = [
    Case(6, "the blocks of one operation run concurrently, beyond the maximum") {
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 1
        let (first, second) = (Gate(), Gate())
        let operation = BlockOperation {
            first.open()
            second.wait()
        }
        operation.addExecutionBlock {
            second.open()
            first.wait()
        }
        queue.addOperations([operation], waitUntilFinished: true)
    },
    Case(6, "by hand, the first block runs on the calling thread") {
        let here = pthread_self()
        let log = Log<Bool>()
        let operation = BlockOperation { log.append(pthread_self() == here) }
        operation.start()
        try expect(log.entries == [true], "it ran elsewhere")
    },
    Case(6, "all blocks run, and it has finished when they have") {
        let log = Log<Int>()
        let operation = BlockOperation { log.append(0) }
        for index in 1..<50 { operation.addExecutionBlock { log.append(index) } }
        try expect(operation.executionBlocks.count == 50, "it lists \(operation.executionBlocks.count) blocks")
        operation.start()
        try expect(log.entries.sorted() == Array(0..<50), "\(log.count) of 50 ran")
    },
]
