import Glibc

let dependencyCases = [
    Case(7, "dependencies hold across queues") {
        let (first, second) = (OperationQueue(), OperationQueue())
        let log = Log<String>()
        let a = BlockOperation { log.append("a") }
        let b = BlockOperation { log.append("b") }
        let c = BlockOperation { log.append("c") }
        c.addDependency(b)
        b.addDependency(a)
        second.addOperation(c)
        first.addOperation(b)
        try expect(!b.isReady && !c.isReady, "a dependent is ready")
        second.addOperation(a)
        c.waitUntilFinished()
        try expect(log.entries == ["a", "b", "c"], "the order was \(log.entries)")
    },
    Case(7, "added twice it counts once") {
        let (a, b) = (BlockOperation {}, BlockOperation {})
        b.addDependency(a)
        b.addDependency(a)
        try expect(b.dependencies.count == 1, "it is listed \(b.dependencies.count) times")
        a.start()
        try expect(b.isReady, "it is not ready")
    },
    Case(7, "a finished dependency stays listed until it is removed") {
        let (a, b) = (BlockOperation {}, BlockOperation {})
        b.addDependency(a)
        a.start()
        try expect(b.dependencies == [a], "it is not listed")
        b.removeDependency(a)
        try expect(b.dependencies.isEmpty && b.isReady, "it was not removed, or is not ready")
    },
    Case(8, "cancelling a dependency releases its dependents") {
        let queue = OperationQueue()
        queue.isSuspended = true
        let (a, b) = (BlockOperation {}, BlockOperation {})
        b.addDependency(a)
        queue.addOperations([a, b], waitUntilFinished: false)
        a.cancel()
        queue.isSuspended = false
        b.waitUntilFinished()
        try expect(!b.isCancelled, "it was cancelled too")
    },
    Case(9, "removing the last unfinished dependency makes it ready") {
        let (never, operation) = (BlockOperation {}, BlockOperation {})
        operation.addDependency(never)
        operation.removeDependency(never)
        try expect(operation.isReady, "isReady is false")
    },
    Case(9, "removing the last unfinished dependency lets its queue run it") {
        let queue = OperationQueue()
        let (never, operation) = (BlockOperation {}, BlockOperation {})
        operation.addDependency(never)
        queue.addOperation(operation)
        giveOthersTime()
        operation.removeDependency(never)
        operation.waitUntilFinished()
    },
    Case(9, "a dependency on an operation that has finished does not hold") {
        let queue = OperationQueue()
        let (a, b) = (BlockOperation {}, BlockOperation {})
        a.start()
        b.addDependency(a)
        try expect(b.isReady, "isReady is false")
        queue.addOperations([b], waitUntilFinished: true)
    },
    Case(9, "a dependency added to a waiting operation holds it") {
        let queue = OperationQueue()
        queue.isSuspended = true
        let log = Log<String>()
        let a = BlockOperation { log.append("a") }
        let b = BlockOperation { log.append("b") }
        queue.maxConcurrentOperationCount = 1
        queue.addOperations([b, a], waitUntilFinished: false)
        b.addDependency(a)
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        try expect(log.entries == ["a", "b"], "the order was \(log.entries)")
    },
    Case(9, "a dependency added to an executing operation has no effect") {
        let queue = OperationQueue()
        let (began, mayEnd) = (Gate(), Gate())
        let operation = BlockOperation {
            began.open()
            mayEnd.wait()
        }
        queue.addOperation(operation)
        began.wait()
        operation.addDependency(BlockOperation {})
        mayEnd.open()
        operation.waitUntilFinished()
        queue.waitUntilAllOperationsAreFinished()
    },
    Case(9, "a dependency added to a finished operation has no effect") {
        let (never, operation) = (BlockOperation {}, BlockOperation {})
        operation.start()
        operation.addDependency(never)
        try expect(operation.isFinished && operation.isReady, "it is not ready any more")
    },
    Case(10, "cancelling one member frees a cycle") {
        let queue = OperationQueue()
        let (a, b, c) = (BlockOperation {}, BlockOperation {}, BlockOperation {})
        a.addDependency(b)
        b.addDependency(c)
        c.addDependency(a)
        queue.addOperations([a, b, c], waitUntilFinished: false)
        giveOthersTime()
        try expect(!a.isReady && !b.isReady && !c.isReady, "a member is ready")
        b.cancel()
        queue.waitUntilAllOperationsAreFinished()
    },
]

private func now() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

/// The time to add and run `count` dependents of one operation.
private func secondsForDependents(_ count: Int) -> Double {
    let queue = OperationQueue()
    let gate = BlockOperation {}
    let start = now()
    for _ in 0..<count {
        let next = Operation()
        next.addDependency(gate)
        queue.addOperation(next)
    }
    queue.addOperation(gate)
    queue.waitUntilAllOperationsAreFinished()
    return now() - start
}

/// The time to add and run one operation with `count` dependencies.
private func secondsForDependencies(_ count: Int) -> Double {
    let queue = OperationQueue()
    let end = BlockOperation {}
    let start = now()
    queue.isSuspended = true
    for _ in 0..<count {
        let next = Operation()
        end.addDependency(next)
        queue.addOperation(next)
    }
    queue.addOperation(end)
    queue.isSuspended = false
    queue.waitUntilAllOperationsAreFinished()
    return now() - start
}

/// Eight times as many operations may take sixteen times as long, or a negligible time.
private func expectLinear(_ seconds: (Int) -> Double) throws {
    _ = seconds(50)
    let few = seconds(250)
    let many = seconds(2000)
    let times = "2,000 take \(Int(many / few)) times as long as 250 (\(Int(many * 1000)) ms)"
    try expect(many < 0.2 || many < 16 * few, times)
}

let scaleCases = [
    Case(11, "a chain of 100,000 runs") {
        let queue = OperationQueue()
        let gate = BlockOperation {}
        var all = [gate as Operation]
        for _ in 0..<100_000 {
            let next = Operation()
            next.addDependency(all[all.count - 1])
            all.append(next)
        }
        for operation in all.dropFirst() { queue.addOperation(operation) }
        queue.addOperation(gate)
        queue.waitUntilAllOperationsAreFinished()
        // Releases the operations one after the other, dependents first.
        while !all.isEmpty { all.removeLast() }
    },
    Case(11, "a chain of 100,000 that never ran is released") {
        weak var first: Operation?
        do {
            var last = Operation()
            first = last
            for _ in 0..<100_000 {
                let next = Operation()
                next.addDependency(last)
                last = next
            }
        }
        try expect(first == nil, "its first operation is still there")
    },
    Case(11, "the dependents of one operation cost linear time") { try expectLinear(secondsForDependents) },
    Case(11, "the dependencies of one operation cost linear time") { try expectLinear(secondsForDependencies) },
]
