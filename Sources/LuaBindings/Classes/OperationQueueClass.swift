import CLua
import OpEngine

/// `opscript.OperationQueue`: the methods and properties of queues.
enum OperationQueueClass {
    enum Function: String, Member {
        case new
        case addOperation, addOperations, addBarrierBlock, cancelAllOperations, waitUntilAllOperationsAreFinished, observe
    }

    enum Property: String, Member {
        case name
        case maxConcurrentOperationCount, maxPendingOperationCount, rateLimit, isSuspended, qualityOfService, dependencyPolicy
        case operations, operationCount, progress, underlyingQueue
    }

    enum ClassProperty: String, Member {
        case main
        case current, defaultMaxConcurrentOperationCount
    }

    enum Option: String, OptionKey {
        static let names = OptionNames<Option>()
        case name, maxConcurrentOperationCount, maxPendingOperationCount, rateLimit, qualityOfService, isSuspended, dependencyPolicy
        case cluster, delivery, maxDeliveries
    }

    static var description: clua_class {
        let functions = unsafe Function.table
        let properties = unsafe Property.table
        let classProperties = unsafe ClassProperty.table
        return unsafe clua_class(
            name: StaticName.queue, kind: ObjectKind.queue.rawValue, base: nil, functions: functions.start, function_count: functions.count,
            properties: properties.start, property_count: properties.count, class_properties: classProperties.start,
            class_property_count: classProperties.count,
            call: { unsafe LuaState.answer($0, $1, $2, OperationQueueClass.function) },
            get: { unsafe LuaState.answer($0, $1, $2, OperationQueueClass.get) },
            set: { unsafe LuaState.answer($0, $1, $2, OperationQueueClass.set) },
            class_get: { unsafe LuaState.answer($0, $1, $2, OperationQueueClass.classGet) },
            describe: { unsafe LuaState.answer($0, $1, $2, OperationQueueClass.describe) })
    }

    // MARK: functions

    private static func function(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let function = Function(number: member) else { throw .message("opscript bug: no method \(member)") }
        if function == .new { return try new(call) }
        return try unsafe call.queue(callingFor: function.rawValue).with { queue throws(CallError) in
            try perform(function, on: queue, call)
        }
    }

    @inline(__always)
    private static func perform(_ function: Function, on queue: OperationQueue, _ call: Call) throws(CallError) -> Answer {
        switch function {
        case .new: return .nothing
        case .addOperation: return try addOperation(to: queue, call)
        case .addOperations:
            let operations = try call.operations(at: 2)
            let waits = call.isMissing(at: 3) ? false : try call.boolean(at: 3)
            try add(operations, toBePrepared: operations, to: queue, call)
            if waits {
                _ = try call.wait(for: operations, timeout: nil)
            }
            return .nothing
        case .addBarrierBlock:
            guard call.isFunction(at: 2) else { throw call.expected("function", at: 2) }
            return try add(barrier: true, to: queue, call)
        case .cancelAllOperations:
            var failure: Failure?
            queue.operations.filter { !$0.isBarrier }.cancelAll { operation in
                do throws(Failure) { try OperationSubclass.cancel(operation, call.state) } catch { failure = failure ?? error }
            }
            if let failure { throw CallError(failure) }
            return .nothing
        case .observe: return try observe(queue, call)
        case .waitUntilAllOperationsAreFinished:
            return .boolean(try call.wait(for: queue, timeout: call.timeout(at: 2)))
        }
    }

    /// Adds operations to `queue`, all of them or none.
    ///
    /// - Parameter given: the operations whose functions may not have been copied for other states yet.
    static func add(_ operations: [Operation], toBePrepared given: [Operation], to queue: OperationQueue, _ call: Call) throws(CallError) {
        try call.asCallError {
            try given.prepared(for: queue, in: call.state) {
                try adding(operations, to: queue, call) { try queue.tryAddOperations(operations, waitUntilFinished: false) }
            }
        }
    }

    /// `queue:addOperation(operation)` or `queue:addOperation(main, ...)`. Returns the operation.
    static func addOperation(to queue: OperationQueue, _ call: Call) throws(CallError) -> Answer {
        if call.isFunction(at: 2) { return try add(barrier: false, to: queue, call) }
        guard let operation = unsafe call.unmanagedOperation(at: 2) else { throw call.expected("Operation or function", at: 2) }
        return try unsafe operation.with { operation throws(CallError) in
            let isSent = try call.asCallError {
                try [operation].prepared(for: queue, in: call.state, handleAt: 2) {
                    try adding([operation], to: queue, call) { try queue.tryAddOperation(operation) }
                }
            }
            return isSent ? .sent(2) : .argument(2)
        }
    }

    /// Calls `add`, which adds operations to `queue`, within the limits. The observations of the queue in this state receive the changes.
    @inline(__always)
    private static func adding(
        _ operations: @autoclosure () -> [Operation], isBarrier: Bool = false, to queue: OperationQueue, _ call: Call,
        _ add: () throws -> Void
    ) throws {
        if !call.state.core.usage.limitsAdding && !queue.hasPendingLimit { return try observing(queue, call, add) }
        try addWithinLimits(operations(), isBarrier: isBarrier, to: queue, call, add)
    }

    @inline(never)
    private static func addWithinLimits(
        _ operations: [Operation], isBarrier: Bool, to queue: OperationQueue, _ call: Call, _ add: () throws -> Void
    ) throws {
        let usage = call.state.core.usage
        try call.state.makeRoom(for: .operation)
        try usage.checkAdding(operations.count, to: queue)
        do {
            if !queue.hasPendingLimit { return try observing(queue, call, add) }
            while true {
                var isAdded = false
                try observing(queue, call) { isAdded = try queue.tryAddIfRoom(operations, isBarrier: isBarrier) }
                if isAdded { return }
                try call.waitForRoom(in: queue, for: operations[0])
            }
        } catch {
            usage.returnOperations(operations.count)
            throw error
        }
    }

    @inline(__always)
    private static func observing(_ queue: OperationQueue, _ call: Call, _ add: () throws -> Void) throws {
        guard call.state.hasObserved else { return try add() }
        let observations = call.state.observations(of: queue)
        for observation in observations { observation.willAdd(to: queue) }
        defer { for observation in observations { observation.hasAdded(to: queue) } }
        try add()
    }

    /// Makes an operation from the function at stack index 2 and the arguments after it, adds it to `queue` and returns it.
    private static func add(barrier: Bool, to queue: OperationQueue, _ call: Call) throws(CallError) -> Answer {
        func add(_ operation: LuaOperation) throws {
            try adding([operation], isBarrier: barrier, to: queue, call) {
                if barrier { try queue.tryAddBarrier(operation) } else { try queue.tryAddOperation(operation) }
            }
        }
        let runsHere = call.state.runsHere(in: queue)
        return try call.asCallError {
            let operation: LuaOperation
            if runsHere {
                operation = LuaOperation(in: call.state, kind: .function, bodyCount: 1)
                try call.attachBody(at: 2, to: operation)
                try [operation].prepared(for: queue, in: call.state, handleAt: 2) { try add(operation) }
            } else {
                operation = LuaOperation(sending: try call.state.encodeBody(count: call.count - 1), from: call.state)
                try add(operation)
            }
            return .operation(operation)
        }
    }

    /// `OperationQueue.new()`, `.new "name"`, `.new { name =, … }`.
    private static func new(_ call: Call) throws(CallError) -> Answer {
        try call.state.takeQueue()
        let queue = OperationQueue(engine: call.state.core.engine)
        try setName(of: queue, to: call.string(at: 1), call)
        if call.isMissing(at: 1) || call.string(at: 1) != nil {
            try joinCluster(queue, GivenOptions(), call)
            return .queue(queue)
        }
        guard call.isTable(at: 1) else { throw call.expected("name or table", at: 1) }
        let options = try call.options(Option.self)
        if let index = options[.name] {
            try setName(of: queue, to: try call.option("name") { () throws(CallError) in try call.requiredString(at: index) }, call)
        }
        if let index = options[.maxConcurrentOperationCount] { try setMaximum(of: queue, at: index, call) }
        if let index = options[.maxPendingOperationCount] {
            try call.option("maxPendingOperationCount") { () throws(CallError) in try setPendingLimit(of: queue, at: index, call) }
        }
        if let index = options[.rateLimit] { queue.rateLimit = try call.rateLimit(at: index) }
        if let index = options[.qualityOfService] { queue.qualityOfService = try call.qualityOfService(at: index) }
        if let index = options[.dependencyPolicy] { queue.dependencyPolicy = try call.dependencyPolicy(at: index) }
        if let index = options[.isSuspended] {
            queue.isSuspended = try call.option("isSuspended") { () throws(CallError) in try call.boolean(at: index) }
        }
        try joinCluster(queue, options, call)
        return .queue(queue)
    }

    /// Lets the operations of a new queue run on a cluster, if its options or the configuration say so.
    private static func joinCluster(_ queue: OperationQueue, _ options: GivenOptions<Option>, _ call: Call) throws(CallError) {
        let clusters = call.state.core.clusters
        var delivery = ClusterExecutor.Delivery()
        if let index = options[.delivery] {
            let name = try call.option("delivery") { () throws(CallError) in try call.requiredString(at: index) }
            guard ["atLeastOnce", "atMostOnce"].contains(name) else {
                throw .message("bad option 'delivery' (expected \"atLeastOnce\" or \"atMostOnce\", got \"\(name)\")")
            }
            delivery.isAtMostOnce = name == "atMostOnce"
        }
        if let index = options[.maxDeliveries] {
            let count = try call.option("maxDeliveries") { () throws(CallError) in try call.requiredInteger(at: index) }
            guard count > 0 else { throw .message("bad option 'maxDeliveries' (expected a positive number, got \(count))") }
            delivery.maximumDeliveries = count
        }
        var url: String?
        if let index = options[.cluster], !call.isMissing(at: index) {
            url = call.string(at: index)
            if url == nil {
                let isUsed = try call.option("cluster") { () throws(CallError) in
                    guard unsafe lua_type(call.lua, index) == LUA_TBOOLEAN else { throw call.expected("URL or boolean", at: index) }
                    return try call.boolean(at: index)
                }
                if !isUsed { return }
            }
        } else if !clusters.isDefault {
            return
        }
        try call.asCallError {
            let connection = try clusters.connection(for: url, core: call.state.core)
            try waitUntilStarted(connection, call.state)
            try queue.trySetUnderlyingQueue(try connection.executor(named: queue.givenName ?? "", delivery))
        }
    }

    private static func waitUntilStarted(_ connection: ClusterConnection, _ state: LuaState) throws(CallError) {
        if connection.hasStarted { return }
        let engine = state.core.engine
        engine.hold()
        defer { engine.release() }
        connection.whenStarted { [inbox = state.inbox] in inbox.post {} }
        _ = try state.wait(deadline: nil) { connection.hasStarted }
        guard connection.hasStarted else {
            throw .message("the operation was cancelled before there was a connection to the cluster's server \(connection.shownURL)")
        }
    }

    /// Names the queue, which keeps the name and the charge for both.
    private static func setName(of queue: OperationQueue, to name: String?, _ call: Call) throws(CallError) {
        try call.state.makeRoom(for: .name, name?.utf8.count ?? 0)
        if let charge = call.state.core.ledger.charge(.queue, name?.utf8.count ?? 0) { queue.companion = charge }
        queue.name = name
    }

    static func setMaximum(of queue: OperationQueue, at index: Int32, _ call: Call) throws(CallError) {
        let maximum = try call.option("maxConcurrentOperationCount") { () throws(CallError) in try call.requiredInteger(at: index) }
        try call.asCallError { try queue.trySetMaxConcurrentOperationCount(maximum) }
    }

    private static func setPendingLimit(of queue: OperationQueue, at index: Int32, _ call: Call) throws(CallError) {
        let limit = call.isMissing(at: index) ? nil : try call.requiredInteger(at: index)
        try call.asCallError { try queue.trySetMaxPendingOperationCount(limit) }
    }

    // MARK: properties

    private static func get(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let queue = call.queueIfAny(at: 1) else { throw call.expected("OperationQueue", at: 1) }
        switch Property(number: member) {
        case .name: return queue.givenName.map { .string($0) } ?? .nil
        case .maxConcurrentOperationCount: return .integer(queue.maxConcurrentOperationCount)
        case .maxPendingOperationCount: return queue.maxPendingOperationCount.map { .integer($0) } ?? .nil
        case .rateLimit:
            guard let limit = queue.rateLimit else { return .nil }
            try call.push([.table(["count": .integer(limit.count), "seconds": .number(limit.seconds), "burst": .integer(limit.burst)])])
            return .values(1)
        case .isSuspended: return .boolean(queue.isSuspended)
        case .qualityOfService: return .string(queue.qualityOfService.scriptName)
        case .dependencyPolicy: return .string(queue.dependencyPolicy.scriptName)
        case .operations: return .objects(queue.operations, .operation)
        case .operationCount: return .integer(queue.operationCount)
        case .progress:
            let progress = queue.progress
            return .progress(
                total: progress.totalUnitCount, completed: progress.completedUnitCount, fraction: progress.fractionCompleted)
        case .underlyingQueue: return queue.underlyingQueue.map { .string("\(type(of: $0))") } ?? .nil
        case nil: return .nil
        }
    }

    private static func set(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        try call.assigning { () throws(CallError) in try assign(member, call) }
    }

    private static func assign(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let queue = call.queueIfAny(at: 1) else { throw call.expected("OperationQueue", at: 1) }
        // An observer may get a notice. A suspended queue can always go on, which frees memory.
        let property = Property(number: member)
        if call.state.hasObserved, property != .isSuspended || !queue.isSuspended { try call.state.makeRoom(for: .notice) }
        switch property {
        case .name: try setName(of: queue, to: try call.optionalString(at: 3), call)
        case .maxConcurrentOperationCount: try setMaximum(of: queue, at: 3, call)
        case .maxPendingOperationCount: try setPendingLimit(of: queue, at: 3, call)
        case .rateLimit: queue.rateLimit = try call.rateLimit(at: 3)
        case .isSuspended: queue.isSuspended = try call.boolean(at: 3)
        case .qualityOfService: queue.qualityOfService = try call.qualityOfService(at: 3)
        case .dependencyPolicy: queue.dependencyPolicy = try call.dependencyPolicy(at: 3)
        case .underlyingQueue:
            guard call.isMissing(at: 3), queue.underlyingQueue == nil else {
                throw .message("a script's operations need the threads of its runtime: 'underlyingQueue' of its queues stays nil")
            }
        case .operations, .operationCount, .progress: throw .message("'\(call.string(at: 2) ?? "")' of a queue cannot be assigned")
        case nil:
            let name = call.string(at: 2) ?? "?"
            throw .message("a queue has no property '\(name)'\(Spelling.suggestion(for: name, among: Property.names))")
        }
        return .nothing
    }

    private static func classGet(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        switch ClassProperty(number: member) {
        case .main: .queue(call.state.core.engine.mainQueue)
        case .current: .queue(call.state.currentOperation == nil ? call.state.queueOutsideOperations : OperationQueue.current)
        case .defaultMaxConcurrentOperationCount: .integer(OperationQueue.defaultMaxConcurrentOperationCount)
        case nil: .nil
        }
    }

    private static func describe(_: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let queue = call.queueIfAny(at: 1) else { throw call.expected("OperationQueue", at: 1) }
        let name = queue.givenName.map { " '\($0)'" } ?? ""
        let count = queue.operationCount
        let suspended = queue.isSuspended ? ", suspended" : ""
        return .string("OperationQueue\(name) (\(count) operation\(count == 1 ? "" : "s")\(suspended))")
    }
}
