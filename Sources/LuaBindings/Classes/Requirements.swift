import CLua
@_spi(Subclassing) import OpEngine

/// The needs of operations besides their dependencies, as scripts write them: `exclusive`, `needs`, `retry`, conditions, resources and rate limits.
extension Call {
    // MARK: of an operation

    func setExclusiveKeys(of operation: Operation, at index: Int32) throws(CallError) {
        try checkHasNotStarted(operation, "exclusive")
        if let key = string(at: index) {
            try checkSize(of: CollectionOfOne(key), "exclusive")
            try keep(CollectionOfOne(key), as: .keys, of: operation)
            return operation.setExclusiveKey(key)
        }
        var keys: Set<String> = []
        if !isMissing(at: index) {
            guard isTable(at: index) else {
                throw .message("exclusive must be a string or an array of strings, got a \(typeName(at: index))")
            }
            try checkStoredCount(unsafe Int(lua_rawlen(lua, index)), "keys", of: operation)
            keys = Set(
                try array(at: index) { position, number throws(CallError) in
                    if let key = string(at: position) { return key }
                    throw .message("exclusive[\(number)] must be a string, got a \(typeName(at: position))")
                })
        }
        try checkSize(of: keys, "exclusive")
        try keep(keys, as: .keys, of: operation)
        operation.exclusiveKeys = keys
    }

    func setNeeds(of operation: Operation, at index: Int32) throws(CallError) {
        try checkHasNotStarted(operation, "needs")
        let needs = isMissing(at: index) ? [:] : try amounts(at: index, "needs", least: 1)
        try checkStoredCount(needs.count, "needs", of: operation)
        try checkSize(of: needs.keys, "needs")
        try keep(needs.keys, as: .needs, of: operation)
        operation.needs = needs
    }

    func setRetry(of operation: Operation, at index: Int32) throws(CallError) {
        if operation.memberQueue != nil, !isMissing(at: index) {
            throw .message("\(operation.displayName) is a group, and cannot be tried again: its members run once; give them 'retry'")
        }
        try checkHasNotStarted(operation, "retry")
        var when: Parcel?
        let policy = isMissing(at: index) ? nil : try retryPolicy(at: index, &when)
        if let operation = operation as? LuaOperation { return operation.setRetryPolicy(policy, when: when) }
        if when != nil { throw .message("retry.when: \(operation.displayName) is the host's, and cannot ask a function of a script") }
        operation.retryPolicy = policy
    }

    private enum RetryOption: String, CaseIterable { case attempts, delay, backoff, maxDelay, jitter, when }

    private func retryPolicy(at index: Int32, _ when: inout Parcel?) throws(CallError) -> RetryPolicy {
        if type(at: index) == LUA_TNUMBER { return RetryPolicy(attempts: try positive(at: index, "retry")) }
        guard isTable(at: index) else { throw .message("retry must be a number of attempts or a table, got a \(typeName(at: index))") }
        guard unsafe lua_checkstack(lua, 1) != 0 else { throw .message("stack overflow") }
        unsafe lua_pushnil(lua)
        let function = count
        defer { unsafe lua_settop(lua, function - 1) }
        var policy = RetryPolicy(attempts: 1), hasAttempts = false
        try forEachOption(at: index, "retry", RetryOption.self) { option, value throws(CallError) in
            switch option {
            case .attempts:
                policy.attempts = try positive(at: value, "retry.attempts")
                hasAttempts = true
            case .delay: policy.delay = try number(at: value, "retry.delay", "a number of seconds, 0 or more") { $0 >= 0 }
            case .maxDelay: policy.maxDelay = try number(at: value, "retry.maxDelay", "a number of seconds, 0 or more") { $0 >= 0 }
            case .backoff: policy.backoff = try number(at: value, "retry.backoff", "a number, 1 or more") { $0 >= 1 }
            case .jitter:
                guard type(at: value) == LUA_TBOOLEAN else {
                    throw .message("retry.jitter must be a boolean, got a \(typeName(at: value))")
                }
                policy.jitter = try boolean(at: value)
            case .when:
                guard isFunction(at: value) else { throw .message("retry.when must be a function, got a \(typeName(at: value))") }
                unsafe lua_copy(lua, value, function)
            }
        }
        if !hasAttempts { throw .message("retry.attempts is missing: the number of attempts, including the first") }
        // Sending a function may run code of Lua, which must not happen while the fields are traversed.
        if isFunction(at: function) { when = try sentFunction(at: function) }
        return policy
    }

    /// `operation:addCondition(f)`, `operation:addCondition("fileExists", path)` and so on.
    func addCondition(to operation: Operation) throws(CallError) {
        try addCondition(to: operation, at: 2, argument: 3)
    }

    /// The option `conditions`: an array of functions, names, and tables of a name and its argument.
    func addConditions(to operation: Operation, at index: Int32) throws(CallError) {
        guard isTable(at: index) else { throw .message("conditions must be an array, got a \(typeName(at: index))") }
        _ = try array(at: index) { position, _ throws(CallError) in
            guard isTable(at: position) else { return try addCondition(to: operation, at: position, argument: nil) }
            guard unsafe lua_checkstack(lua, 2) != 0 else { throw .message("stack overflow") }
            unsafe lua_rawgeti(lua, position, 1)
            unsafe lua_rawgeti(lua, position, 2)
            try addCondition(to: operation, at: position + 1, argument: position + 2)
        }
    }

    private static let namedConditions = ["noFailedDependencies", "noCancelledDependencies", "fileExists"]

    private func addCondition(to operation: Operation, at index: Int32, argument: Int32?) throws(CallError) {
        try checkHasNotStarted(operation, "addCondition")
        try checkStoredCount(operation.conditionCount + 1, "conditions", of: operation)
        if isFunction(at: index) {
            guard let operation = operation as? LuaOperation else {
                throw .message("\(operation.displayName) is the host's, and cannot ask a function of a script")
            }
            let label = functionLabel(at: index)
            try state.makeRoom(for: .conditionFunction, label.utf8.count)
            return operation.addCondition(try sentFunction(at: index), named: label)
        }
        try state.makeRoom(for: .condition)
        switch string(at: index) {
        case "noFailedDependencies": operation.addCondition(.noFailedDependencies)
        case "noCancelledDependencies": operation.addCondition(.noCancelledDependencies)
        case "fileExists":
            if !state.core.sandbox.allowsFiles {
                throw .message("the condition \"fileExists\" is not available here: the host of this script does not allow files")
            }
            guard let argument, let path = string(at: argument) else {
                throw .message("the condition \"fileExists\" needs a path, as in operation:addCondition(\"fileExists\", \"input.txt\")")
            }
            try state.makeRoom(for: .condition, path.utf8.count)
            operation.addCondition(.fileExists(path))
            return (operation as? LuaOperation)?.countOne(.condition, path.utf8.count) ?? ()
        case let name?:
            throw .message("there is no condition '\(name)'\(Spelling.suggestion(for: name, among: Self.namedConditions))")
        case nil:
            let names = Self.namedConditions.map { "\"\($0)\"" }.joined(separator: ", ")
            throw .message("a condition must be a function or one of \(names), got a \(typeName(at: index))")
        }
        (operation as? LuaOperation)?.countOne(.condition)
    }

    // MARK: of all operations

    /// `opscript.resources { … }`, `opscript.resources()`.
    func resources() throws(CallError) -> Answer {
        let engine = state.core.engine
        if count == 0 {
            try push([.table(Dictionary(uniqueKeysWithValues: engine.resources.map { (LuaValue.string($0), .integer($1)) }))])
            return .values(1)
        }
        if !state.core.sandbox.allowsPreludes {
            throw .message("opscript.resources cannot be changed here: the host of this script does not allow it")
        }
        engine.resources = try amounts(at: 1, "resources", least: 0)
        return .nothing
    }

    // MARK: of a queue

    private enum RateOption: String, CaseIterable { case count, seconds, burst }

    /// `queue.rateLimit`.
    func rateLimit(at index: Int32) throws(CallError) -> RateLimit? {
        if isMissing(at: index) { return nil }
        guard isTable(at: index) else {
            throw .message("rateLimit must be a table such as { count = 10, seconds = 1 }, got a \(typeName(at: index))")
        }
        var starts: Int?, burst: Int?, seconds = 1.0
        try forEachOption(at: index, "rateLimit", RateOption.self) { option, value throws(CallError) in
            switch option {
            case .count: starts = try positive(at: value, "rateLimit.count")
            case .burst: burst = try positive(at: value, "rateLimit.burst")
            case .seconds:
                seconds = try number(at: value, "rateLimit.seconds", "a number of seconds, more than 0") { $0 > 0 && $0.isFinite }
            }
        }
        guard let starts else { throw .message("rateLimit.count is missing: the number of starts in each period") }
        return RateLimit(count: starts, seconds: seconds, burst: burst)
    }

    // MARK: reading

    /// Amounts of resources by name.
    private func amounts(at index: Int32, _ name: String, least: Int) throws(CallError) -> [String: Int] {
        guard isTable(at: index) else {
            throw .message("\(name) must be a table such as { gpu = 1, memory = \"2G\" }, got a \(typeName(at: index))")
        }
        var amounts: [String: Int] = [:]
        try forEachField(of: index) { key, value throws(CallError) in
            guard let resource = string(at: key) else {
                throw .message("\(name): resources have names, got a \(typeName(at: key)) as a key")
            }
            let amount = integer(at: value) ?? string(at: value).flatMap(ByteSize.parse)
            guard let amount, amount >= least else {
                let expected = "an integer, \(least) or more, or a size: \(ByteSize.form), such as \"2G\""
                throw .message("\(name).\(resource) must be \(expected), got \(shown(at: value))")
            }
            amounts[resource] = amount
        }
        return amounts
    }

    private func positive(at index: Int32, _ name: String) throws(CallError) -> Int {
        guard let value = integer(at: index), value >= 1 else {
            throw .message("\(name) must be an integer, 1 or more, got \(shown(at: index))")
        }
        return value
    }

    private func number(at index: Int32, _ name: String, _ expected: String, _ fits: (Double) -> Bool) throws(CallError) -> Double {
        guard type(at: index) == LUA_TNUMBER, case let value = try number(at: index), fits(value) else {
            throw .message("\(name) must be \(expected), got \(shown(at: index))")
        }
        return value
    }

    /// A wrong value, as messages show it.
    private func shown(at index: Int32) -> String {
        if let text = string(at: index) { return "'\(text.prefix(40))'" }
        if let number = type(at: index) == LUA_TNUMBER ? try? number(at: index) : nil { return number.scriptText }
        return Grammar.indefinite(typeName(at: index))
    }

    /// Calls `body` for each option in the table at `index`, which is the option `name` itself.
    private func forEachOption<Option: CaseIterable & RawRepresentable<String>>(
        at index: Int32, _ name: String, _ type: Option.Type, _ body: (Option, _ value: Int32) throws(CallError) -> Void
    ) throws(CallError) {
        try forEachField(of: index) { key, value throws(CallError) in
            guard let text = string(at: key) else { throw .message("\(name): options have names, got a \(typeName(at: key)) as a key") }
            guard let option = Option(rawValue: text) else {
                throw .message("\(name): unknown option '\(text)'\(Spelling.suggestion(for: text, among: Option.allCases.map(\.rawValue)))")
            }
            try body(option, value)
        }
    }

    /// A copy of the function at `index`, with its captured values, for other states.
    func sentFunction(at index: Int32) throws(CallError) -> Parcel {
        guard unsafe lua_checkstack(lua, 1) != 0 else { throw .message("stack overflow") }
        let top = count
        defer { unsafe lua_settop(lua, top) }
        unsafe lua_pushvalue(lua, index)
        do throws(Failure) { return try state.encodeBody(count: 1) } catch { throw CallError(error) }
    }

    // MARK: checking

    private func checkHasNotStarted(_ operation: Operation, _ name: String) throws(CallError) {
        guard operation.isExecuting || operation.isFinished || operation.attempt > 0 else { return }
        throw .message("\(operation.displayName) has started, so '\(name)' would have no effect: use it before")
    }

    /// Checks the number of keys, needs or conditions of an operation against the limit of its stored values.
    private func checkStoredCount(_ count: Int, _ what: String, of operation: Operation) throws(CallError) {
        guard let limit = state.core.usage.limits.storedValues, count > limit else { return }
        throw .message("\(operation.displayName) may have at most \(limit) \(what) (limits.storedValues)")
    }

    /// Counts names that an operation is about to keep, in place of its former ones of that kind.
    private func keep(_ names: some Collection<String>, as kind: Kept, of operation: Operation) throws(CallError) {
        guard state.core.ledger != nil else { return }
        let bytes = names.reduce(0) { $0 + $1.utf8.count + kind.bytes }
        if !names.isEmpty { try state.makeRoom(for: kind, bytes) }
        (operation as? LuaOperation)?.count(kind, names.isEmpty ? nil : bytes)
    }

    /// Names an operation.
    func setName(of operation: Operation, to name: String?) throws(CallError) {
        let names = name.map { [$0] } ?? []
        if !(operation is LuaOperation) { try checkSize(of: names, "name") }
        try keep(names, as: .name, of: operation)
        operation.name = name
    }

    func addDependency(_ dependency: Operation, to operation: Operation) throws(CallError) {
        try state.makeRoom(for: .dependency)
        let isNew = state.core.ledger != nil && !operation.depends(on: dependency)
        try asCallError { try operation.tryAddDependency(dependency) }
        if isNew { (operation as? LuaOperation)?.countOne(.dependency) }
    }

    private func checkSize(of names: some Collection<String>, _ what: String) throws(CallError) {
        guard let limit = state.core.usage.limits.valueBytes, names.reduce(0, { $0 + $1.utf8.count }) > limit else { return }
        throw .message("\(what): the names have more than \(limit) bytes (limits.valueBytes)")
    }
}

extension Operation {
    /// The value of `exclusive`, `needs` or `retry` in scripts.
    func requirement(_ property: OperationClass.Property?) -> LuaValue {
        switch property {
        case .exclusive: return exclusiveKeys.isEmpty ? .nil : .array(exclusiveKeys.sorted().map { .string($0) })
        case .needs: return needs.isEmpty ? .nil : .table(Dictionary(uniqueKeysWithValues: needs.map { (.string($0), .integer($1)) }))
        default:
            guard let policy = retryPolicy else { return .nil }
            return .table([
                "attempts": .integer(policy.attempts), "delay": .number(policy.delay), "backoff": .number(policy.backoff),
                "maxDelay": .number(policy.maxDelay), "jitter": .boolean(policy.jitter),
            ])
        }
    }

    /// The errors of former attempts, as scripts see them.
    var failuresOfAttempts: [OperationFailure] {
        attemptErrors.map { $0 as? OperationFailure ?? OperationFailure(Failure(thrown: $0), kind: .error, of: self) }
    }
}
