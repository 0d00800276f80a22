/// Its work goes on after `main`; only the getter of `isFinished` says so.
// Safety: locks guard its properties, or only one thread at a time uses them.
private final class Later: Operation, @unchecked Sendable {
    private let done = Locked(false)
    let mayEnd = Gate()
    override var isFinished: Bool { done.withLock { $0 } }
    override func main() {
        _ = TestThread {
            self.mayEnd.wait()
            self.willChangeValue(forKey: "isFinished")
            self.done.withLock { $0 = true }
            self.didChangeValue(forKey: "isFinished")
        }
    }
}

/// Combines its own flag with the flag of its superclass.
// Safety: locks guard its properties, or only one thread at a time uses them.
private final class Combined: Operation, @unchecked Sendable {
    private let done = Locked(false)
    override var isFinished: Bool { super.isFinished && done.withLock { $0 } }
    func end() {
        willChangeValue(forKey: "isFinished")
        done.withLock { $0 = true }
        didChangeValue(forKey: "isFinished")
    }
}

// Safety: locks guard its properties, or only one thread at a time uses them.
private final class Urgent: BlockOperation, @unchecked Sendable {
    override var queuePriority: QueuePriority {
        get { .veryHigh }
        set {}
    }
}

/// Inherits `init(block:)`, because it overrides the only designated initializer.
// Safety: locks guard its properties, or only one thread at a time uses them.
private final class Inheriting: BlockOperation, @unchecked Sendable {
    override init() {
        super.init()
        name = "inheriting"
    }
}

// Safety: locks guard its properties, or only one thread at a time uses them.
private final class Defining: BlockOperation, @unchecked Sendable {
    init(block: @escaping @Sendable () -> Void) {
        super.init()
        addExecutionBlock(block)
    }
}

/// Has members whose names Foundation does not use.
// Safety: locks guard its properties, or only one thread at a time uses them.
private final class OwnNames: Operation, @unchecked Sendable {
    private let queue = "a queue"
    var error: String?
    var outcome = 0
    func didFinish() {}
    func willFinish() {}
    func finished() -> String { queue }
    func fail(with error: String) { self.error = error }
    override func main() { fail(with: finished()) }
}

// Safety: locks guard its properties, or only one thread at a time uses them.
private final class Described: Operation, @unchecked Sendable {
    override var description: String { "described" }
}

// Safety: locks guard its properties, or only one thread at a time uses them.
private final class Plain: OperationQueue, @unchecked Sendable { var title = "plain" }

// Safety: locks guard its properties, or only one thread at a time uses them.
private final class Titled: OperationQueue, @unchecked Sendable {
    let title: String
    init(title: String) {
        self.title = title
        super.init()
    }
}

// Safety: locks guard its properties, or only one thread at a time uses them.
private final class Overriding: OperationQueue, @unchecked Sendable {
    override init() {
        super.init()
        name = "overriding"
    }
}

let idiomCases = [
    Case(5, "an overridden isFinished is believed after main") {
        let (queue, log, completed) = (OperationQueue(), Log<String>(), Gate())
        let operation = Later()
        operation.completionBlock = {
            log.append("completed")
            completed.open()
        }
        let dependent = BlockOperation { log.append("dependent") }
        dependent.addDependency(operation)
        queue.addOperations([operation, dependent], waitUntilFinished: false)
        giveOthersTime()
        try expect(log.entries.isEmpty, "too early: \(log.entries)")
        operation.mayEnd.open()
        completed.wait()
        queue.waitUntilAllOperationsAreFinished()
        try expect(log.entries.sorted() == ["completed", "dependent"], "\(log.entries)")
    },
    Case(5, "an overridden isFinished may combine itself with super's") {
        let (queue, completed) = (OperationQueue(), Gate())
        let operation = Combined()
        operation.completionBlock = { completed.open() }
        queue.addOperation(operation)
        giveOthersTime()
        try expect(queue.operationCount == 1, "it has left")
        operation.end()
        completed.wait()
        queue.waitUntilAllOperationsAreFinished()
    },
    Case(5, "an overridden queuePriority counts") {
        let (queue, log) = (OperationQueue(), Log<String>())
        queue.maxConcurrentOperationCount = 1
        queue.isSuspended = true
        queue.addOperation { log.append("usual") }
        queue.addOperation(Urgent { log.append("urgent") })
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        try expect(log.entries == ["urgent", "usual"], "\(log.entries)")
    },
    Case(5, "names that Foundation does not use are free") {
        let operation = OwnNames()
        OperationQueue().addOperations([operation], waitUntilFinished: true)
        try expect(operation.error == "a queue", "\(operation.error ?? "nil")")
    },
    Case(6, "description can be overridden") {
        try expect("\(Described())" == "described", "\(Described())")
    },
    Case(15, "a completion block may be set while the operation executes") {
        let (log, completed) = (Log<Int>(), Gate())
        // Safety: locks guard its properties, or only one thread at a time uses them.
        final class Setting: Operation, @unchecked Sendable {
            var set: ((Operation) -> Void)?
            override func main() { set?(self) }
        }
        let operation = Setting()
        operation.set = { operation in
            operation.completionBlock = {
                log.append(1)
                completed.open()
            }
        }
        OperationQueue().addOperation(operation)
        completed.wait()
        try expect(log.count == 1, "it ran \(log.count) times")
    },
    Case(15, "a completion block that is set after the end never runs") {
        let log = Log<Int>()
        let operation = BlockOperation {}
        operation.start()
        operation.completionBlock = { log.append(1) }
        giveOthersTime()
        try expect(log.count == 0, "it ran")
    },
    Case(15, "a completion block may be removed at any time") {
        let operation = BlockOperation {}
        operation.completionBlock = {}
        operation.start()
        operation.completionBlock = nil
    },
    Case(27, "a subclass of a queue has the usual initialisers") {
        let queues = [Plain(), Titled(title: "t"), Overriding()]
        for queue in queues { queue.addOperations([Operation()], waitUntilFinished: true) }
        try expect(queues[2].name == "overriding", "\(queues[2].name ?? "nil")")
    },
    Case(27, "a subclass of a block operation inherits init(block:), or defines it without override") {
        let log = Log<String>()
        let operations = [Inheriting { log.append("inherited") }, Defining { log.append("defined") }]
        for operation in operations { operation.start() }
        try expect(log.entries == ["inherited", "defined"] && operations[0].name == "inheriting", "\(log.entries)")
    },
    Case(27, "a queue has a name without being given one") {
        let name = OperationQueue().name ?? "nil"
        try expect(name.hasPrefix("NSOperationQueue 0x"), name)
        try expect(OperationQueue.main.name == "NSOperationQueue Main Queue", OperationQueue.main.name ?? "nil")
    },
    Case(28, "undeclared blocking does not stop the queues") {
        let queue = OperationQueue()
        let gate = Gate()
        for _ in 0..<2 { queue.addOperation { gate.wait() } }
        queue.addOperation {
            gate.open()
            gate.open()
        }
        queue.waitUntilAllOperationsAreFinished()
    },
]
