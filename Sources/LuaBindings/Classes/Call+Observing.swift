import OpEngine

extension OperationClass {
    private static let keyPaths = [
        "isCancelled", "isAsynchronous", "isExecuting", "isFinished", "isReady", "dependencies", "queuePriority", "completionBlock", "name",
    ]

    /// `operation:observe(keyPath, [options,] function)`.
    static func observe(_ operation: Operation, _ call: Call) throws(CallError) -> Answer {
        let keyPath = try call.requiredString(at: 2)
        var key = keyPath
        if !keyPaths.contains(keyPath) {
            if Property.names.contains(keyPath) {
                throw .argument(2, "'\(keyPath)' of an operation cannot be observed; known are \(keyPaths.joined(separator: ", "))")
            }
            try check(storageName: keyPath, call)
            guard operation is LuaOperation else { throw .message("\(operation.displayName) is the host's and has no storage") }
            key = LuaOperation.storageKey(keyPath)
        }
        let (options, function) = try call.observer()
        try call.state.makeRoom(for: .observation, 2 * keyPath.utf8.count)
        let observation = Observation.begin(operation, keyPath, key: key, options, in: call.state)
        if let operation = operation as? LuaOperation {
            operation.addObservation(observation)
        } else {
            observation.awaitEnd(of: operation)
        }
        call.state.hasObserved = true
        return .newObservation(observation, functionAt: function)
    }
}

extension OperationQueueClass {
    private static let keyPaths = ["operations", "operationCount", "isSuspended", "name", "maxConcurrentOperationCount"]

    /// `queue:observe(keyPath, [options,] function)`.
    static func observe(_ queue: OperationQueue, _ call: Call) throws(CallError) -> Answer {
        let keyPath = try call.requiredString(at: 2)
        guard keyPaths.contains(keyPath) else {
            let what =
                Property.names.contains(keyPath) ? "'\(keyPath)' of a queue cannot be observed" : "a queue has no key path '\(keyPath)'"
            throw .argument(2, what + Spelling.suggestion(for: keyPath, among: keyPaths))
        }
        let (options, function) = try call.observer()
        try call.state.makeRoom(for: .observation)
        call.state.hasObserved = true
        return .newObservation(Observation.begin(queue, keyPath, options, in: call.state), functionAt: function)
    }
}

extension Call {
    private static var observingOptions: [(name: String, option: KeyValueObservingOptions)] {
        [("old", .old), ("new", .new), ("initial", .initial), ("prior", .prior)]
    }

    /// Reads the options, if there are any, and finds the function after them.
    fileprivate func observer() throws(CallError) -> (KeyValueObservingOptions, function: Int32) {
        let hasOptions = !isFunction(at: 3) && !isMissing(at: 3)
        let function: Int32 = hasOptions || count > 3 ? 4 : 3
        let options = hasOptions ? try observingOptions(at: 3) : []
        guard isFunction(at: function) else { throw expected("function", at: function) }
        return (options, function)
    }

    private func observingOptions(at index: Int32) throws(CallError) -> KeyValueObservingOptions {
        guard isTable(at: index) else { throw expected("function, or a list of options,", at: index) }
        var options: KeyValueObservingOptions = []
        try forEachField(of: index) { key, value throws(CallError) in
            guard integer(at: key) != nil else {
                throw .argument(
                    index,
                    "options are a list, such as { \"old\", \"new\" }, got \(string(at: key).map { "the key '\($0)'" } ?? "another key")")
            }
            guard let name = string(at: value) else { throw .argument(index, "options are strings, got a \(typeName(at: value))") }
            guard let known = Self.observingOptions.first(where: { $0.name == name }) else {
                let names = Self.observingOptions.map(\.name)
                throw .argument(index, "unknown option '\(name)'\(Spelling.suggestion(for: name, among: names))")
            }
            options.insert(known.option)
        }
        return options
    }
}
