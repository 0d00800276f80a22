import Dispatch

private let key = DispatchSpecificKey<Int>()

let underlyingQueueCases = [
    Case(25, "operations run on the underlying queue, and know their own") {
        let dispatch = DispatchQueue(label: "underlying", attributes: .concurrent)
        dispatch.setSpecific(key: key, value: 7)
        let queue = OperationQueue()
        queue.underlyingQueue = dispatch
        let log = Log<Bool>()
        for _ in 0..<20 { queue.addOperation { log.append(DispatchQueue.getSpecific(key: key) == 7 && OperationQueue.current === queue) } }
        queue.waitUntilAllOperationsAreFinished()
        try expect(log.count == 20 && !log.entries.contains(false), "some ran elsewhere")
    },
    Case(25, "maximum and order hold on an underlying queue") {
        let queue = OperationQueue()
        queue.underlyingQueue = DispatchQueue(label: "underlying", attributes: .concurrent)
        queue.maxConcurrentOperationCount = 1
        queue.isSuspended = true
        let log = Log<Int>()
        for index in 0..<100 { queue.addOperation { log.append(index) } }
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        try expect(log.entries == Array(0..<100), "the order is another")
    },
    Case(25, "nil takes the underlying queue away") {
        let queue = OperationQueue()
        queue.underlyingQueue = DispatchQueue(label: "underlying")
        queue.underlyingQueue = nil
        let log = Log<Int>()
        queue.addOperation { log.append(1) }
        queue.waitUntilAllOperationsAreFinished()
        try expect(queue.underlyingQueue == nil && log.count == 1, "it is still there, or nothing ran")
    },
    Case(25, "an underlying queue set on a queue with operations is refused", traps: true) {
        let queue = OperationQueue()
        queue.isSuspended = true
        queue.addOperation {}
        queue.underlyingQueue = DispatchQueue(label: "underlying")
    },
    Case(25, "the main dispatch queue as underlying queue is refused", traps: true) {
        OperationQueue().underlyingQueue = DispatchQueue.main
    },
]
