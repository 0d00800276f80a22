import CLua
@_spi(Subclassing) import OpEngine

/// `opscript.GroupOperation`: an operation that consists of others. `OperationClass` has its methods, and the properties that it shares with
/// all operations.
enum GroupOperationClass {
    enum Function: String, Member {
        case new
    }

    /// The properties that only groups have. An operation that is no group may store values under these names.
    enum Property: String, Member {
        case operations, maxConcurrentOperationCount, isSuspended, progress
    }

    enum Option: String, OptionKey {
        static let names = OptionNames<Option>()
        case operations, maxConcurrentOperationCount, isSuspended
        case name, queuePriority, qualityOfService, completionBlock, dependencies, dependencyPolicy, timeout, exclusive, needs, conditions
    }

    static var description: clua_class {
        unsafe BlockOperationClass.subclass(StaticName.groupOperation, Function.table) {
            unsafe LuaState.answer($0, $1, $2, GroupOperationClass.new)
        }
    }

    /// `GroupOperation.new()`, `GroupOperation.new { operations =, … }`.
    private static func new(_: Int32, _ call: Call) throws(CallError) -> Answer {
        if call.operationIfAny(at: 1) != nil || call.operationClass(at: 1) != nil {
            throw .message("'new' is a function of the class: call it with '.', as in GroupOperation.new(...)")
        }
        if call.count > 0, !call.isTable(at: 1) { throw call.expected("table", at: 1) }
        let options = call.count > 0 ? try call.options(Option.self) : GivenOptions()
        if let index = options[.operations], !call.isTable(at: index) {
            throw .argument(1, "operations must be an array, got a \(call.typeName(at: index))")
        }
        try call.state.takeQueue()
        let group = LuaOperation.makeGroup(in: call.state)
        guard let members = group.memberQueue else { throw .message("opscript bug: a group without a queue") }
        var common = GivenOptions<OperationClass.Option>()
        for option in Option.allCases {
            guard let slot = options[option], let shared = OperationClass.Option(rawValue: option.rawValue) else { continue }
            common.add(shared, at: slot)
        }
        try OperationClass.configure(group, common, call)
        if let index = options[.maxConcurrentOperationCount] { try OperationQueueClass.setMaximum(of: members, at: index, call) }
        if let index = options[.isSuspended] {
            members.isSuspended = try call.option("isSuspended") { () throws(CallError) in try call.boolean(at: index) }
        }
        if let index = options[.operations] { try add(elementsAt: index, to: members, call) }
        return .newOperation(group, bodyAt: 0, completionAt: options[.completionBlock])
    }

    /// `group:addOperation(operation)`, `group:addOperation(main, ...)`, `group:addOperations(array)`.
    static func add(to group: Operation, _ function: OperationClass.Function, _ call: Call) throws(CallError) -> Answer {
        guard let members = group.memberQueue else {
            throw .message("\(group.displayName) is not a GroupOperation: only such a one has members")
        }
        if function == .addOperation { return try OperationQueueClass.addOperation(to: members, call) }
        guard call.isTable(at: 2) else { throw call.expected("array of operations and functions", at: 2) }
        try add(elementsAt: 2, to: members, call)
        return .nothing
    }

    /// Adds the operations and functions in the array at `index`, all of them or none.
    private static func add(elementsAt index: Int32, to members: MemberQueue, _ call: Call) throws(CallError) {
        var given: [Operation] = []
        let all = try call.array(at: index) { position, number throws(CallError) -> Operation in
            if call.isFunction(at: position) { return LuaOperation(sending: try call.sentFunction(at: position), from: call.state) }
            guard let operation = call.operationIfAny(at: position) else {
                throw .message("operations[\(number)] must be an operation or a function, got a \(call.typeName(at: position))")
            }
            given.append(operation)
            return operation
        }
        try OperationQueueClass.add(all, toBePrepared: given, to: members, call)
    }

    /// The value of the property whose name is at stack index 2; nil if groups have no property of that name.
    static func get(of members: MemberQueue, _ call: Call) -> Answer? {
        switch call.string(at: 2).flatMap({ Property(rawValue: $0) }) {
        case .operations: .objects(members.members, .operation)
        case .maxConcurrentOperationCount: .integer(members.maxConcurrentOperationCount)
        case .isSuspended: .boolean(members.isSuspended)
        case .progress:
            .progress(
                total: members.progress.totalUnitCount, completed: members.progress.completedUnitCount,
                fraction: members.progress.fractionCompleted)
        case nil: nil
        }
    }

    /// Assigns to the property whose name is at stack index 2. Returns false if groups have no property of that name.
    static func set(_ members: MemberQueue, _ call: Call) throws(CallError) -> Bool {
        switch call.string(at: 2).flatMap({ Property(rawValue: $0) }) {
        case .maxConcurrentOperationCount: try OperationQueueClass.setMaximum(of: members, at: 3, call)
        case .isSuspended: members.isSuspended = try call.boolean(at: 3)
        case .operations: throw .message("'operations' of a group cannot be assigned: use addOperation or addOperations")
        case .progress: throw .message("'progress' of a group cannot be assigned")
        case nil: return false
        }
        return true
    }
}
