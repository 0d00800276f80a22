import CLua
@_spi(Subclassing) import OpEngine

/// `opscript.Operation`: the methods and properties of operations.
enum OperationClass {
    enum Function: String, Member {
        case new
        case subclass
        case `init`, main, isKindOf
        case start, cancel, interrupt, finish, fail, addDependency, removeDependency, waitUntilFinished, addExecutionBlock, why, observe
        case addCondition, addOperation, addOperations, whyRun, output, get
    }

    enum Property: String, Member {
        case name
        case isReady, isExecuting, isFinished, isCancelled, isAsynchronous, dependencies, queuePriority, qualityOfService
        case completionBlock, result, results, error, dependencyPolicy, memoryLimit, timeout, executionBlocks
        case exclusive, needs, retry, attempt, attempts, group, isSkipped
    }

    enum ClassProperty: String, Member {
        case current
    }

    enum Option: String, OptionKey {
        static let names = OptionNames<Option>()
        case main, arguments, name, queuePriority, qualityOfService, completionBlock, dependencies, dependencyPolicy, memoryLimit
        case timeout, asynchronous, exclusive, needs, retry, conditions
        case memoize, inputs, outputs, atomic, depfile, env, version, keepOnFailure
    }

    static var description: clua_class {
        let functions = unsafe Function.table
        let properties = unsafe Property.table
        let classProperties = unsafe ClassProperty.table
        return unsafe clua_class(
            name: StaticName.operation, kind: ObjectKind.operation.rawValue, base: nil, functions: functions.start,
            function_count: functions.count,
            properties: properties.start, property_count: properties.count, class_properties: classProperties.start,
            class_property_count: classProperties.count,
            call: { unsafe LuaState.answer($0, $1, $2, OperationClass.function) },
            get: { unsafe LuaState.answer($0, $1, $2, OperationClass.get) },
            set: { unsafe LuaState.answer($0, $1, $2, OperationClass.set) },
            class_get: { unsafe LuaState.answer($0, $1, $2, OperationClass.classGet) },
            describe: { unsafe LuaState.answer($0, $1, $2, OperationClass.describe) })
    }

    // MARK: functions

    private static func function(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let function = Function(number: member) else { throw .message("opscript bug: no method \(member)") }
        if function == .new { return try new(call) }
        if function == .subclass { return try OperationSubclass.make(call) }
        let operation = try call.operation(callingFor: function.rawValue)
        switch function {
        // The base versions of methods that a subclass may override do nothing.
        case .new, .subclass, .`init`, .main: break
        case .isKindOf: return try OperationSubclass.isKind(operation, call)
        case .start:
            let wasRaised = call.state.interruptWasRaised
            try call.state.core.usage.takeOperations(1)
            do throws(CallError) {
                try call.asCallError { try [operation].prepared(for: nil, in: call.state, handleAt: 1) { try operation.tryStart() } }
            } catch {
                call.state.core.usage.returnOperations(1)
                throw error
            }
            if let reason = (call.state.currentOperation as? LuaOperation)?.stopReason { throw .stop(reason) }
            // The operation has called `os.exit`, so the code that has started it must not continue.
            if call.state.core.requestedExitStatus != nil { throw .stop(.interrupted) }
            // A Ctrl-C that ended a body here also ends the code that started that body.
            if call.state.takeInterrupt(unless: wasRaised) { throw LuaState.interrupted }
        case .cancel:
            // `opscript.all` and `race` ask for no error of the operation.
            if call.type(at: 2) == LUA_TBOOLEAN, try call.boolean(at: 2) { (operation as? LuaOperation)?.dismissFailure() }
            try cancel(operation, call)
        case .interrupt:
            guard let operation = operation as? LuaOperation else {
                throw .message("\(operation.displayName) is the host's: it can only be cancelled")
            }
            operation.interrupt()
        case .finish, .fail: return try end(operation, by: function, call)
        case .addExecutionBlock:
            guard let operation = operation as? LuaOperation, operation.kind == .blocks else {
                throw .message("\(operation.displayName) is not a BlockOperation of a script: only such a one takes execution blocks")
            }
            guard call.isFunction(at: 2) else { throw call.expected("function", at: 2) }
            return try BlockOperationClass.addBlock(to: operation, call)
        case .addCondition: try call.addCondition(to: operation)
        case .addOperation, .addOperations: return try GroupOperationClass.add(to: operation, function, call)
        case .why: return try why(operation, call)
        case .whyRun: return (operation as? LuaOperation)?.reasonToRun.map { .string($0) } ?? .nil
        case .output: return try call.temporaryOutput(of: operation)
        case .addDependency:
            try call.addDependency(try call.operation(at: 2), to: operation)
        case .removeDependency:
            let dependency = try call.operation(at: 2)
            let wasOne = call.state.core.ledger != nil && operation.depends(on: dependency)
            operation.removeDependency(dependency)
            if wasOne { (operation as? LuaOperation)?.countOne(.dependency, adding: false) }
        case .observe: return try observe(operation, call)
        case .waitUntilFinished:
            return .boolean(try call.wait(for: [operation], timeout: call.timeout(at: 2)))
        case .get: return try getResults(of: operation, call)
        }
        return .nothing
    }

    /// `operation:cancel()`. Calls `cancel` of a group's members whose class overrides it, after the group was cancelled: otherwise the group
    /// could finish first.
    private static func cancel(_ operation: Operation, _ call: Call) throws(CallError) {
        let told = operation.memberQueue?.operations.filter { ($0 as? LuaOperation)?.scriptClass != nil && !$0.isCancelled } ?? []
        operation.cancel()
        var failure: Failure?
        for member in told {
            do throws(Failure) { try OperationSubclass.cancel(member, call.state) } catch { failure = failure ?? error }
        }
        if let failure { throw CallError(failure) }
    }

    /// `operation:finish(...)` and `operation:fail(error)`.
    private static func end(_ operation: Operation, by function: Function, _ call: Call) throws(CallError) -> Answer {
        guard let operation = operation as? LuaOperation else {
            throw .message("\(operation.displayName) is the host's: a script cannot end it")
        }
        if let refusal = operation.refusalToEnd(by: function.rawValue) { throw .message(refusal) }
        if function == .fail {
            if call.count < 2 { throw .argument(2, "what went wrong is missing, as in operation:fail(\"no such file\")") }
            operation.finish(with: OperationFailure(call.state.failure(raising: 2), kind: .error, of: operation))
            return .nothing
        }
        do throws(Failure) {
            let results = try call.state.keepingInterrupt { () throws(Failure) in
                call.count > 1 ? try call.state.encode(count: call.count - 1, CLUA_RESULTS) : nil
            }
            operation.finish(with: results)
        } catch { operation.finish(with: OperationFailure(error, kind: .error, of: operation)) }
        return .nothing
    }

    /// `operation:get([seconds])`.
    private static func getResults(of operation: Operation, _ call: Call) throws(CallError) -> Answer {
        let seconds = try call.timeout(at: 2)
        let current = call.state.currentOperation
        guard try call.wait(for: [operation], timeout: seconds) else {
            // The body of a cancelled operation ends without a failure.
            if current?.isCancelled ?? false { throw .stop(.interrupted) }
            throw .message("\(operation.displayName) has not finished after \(seconds?.scriptText ?? "0") s")
        }
        if let failure = operation.failureForScripts {
            call.state.thrownByHost = (failure.message, failure)
            throw .raised(failure.value, failure.message)
        }
        if operation.outcome == .cancelled { throw .message("\(operation.displayName) was cancelled") }
        guard let operation = operation as? LuaOperation else { return .nothing }
        if operation.kind == .group { return operation.resultsOfMembers.map { .allResults($0, isOneOfEach: true) } ?? .nothing }
        if operation.kind == .invocation { try InvocationOperationClass.checkResult(of: operation) }
        return operation.results.map { .allResults($0, isOneOfEach: operation.kind == .blocks) } ?? .nothing
    }

    /// `Operation.new()` or `Operation.new { main =, … }`. C handles `Operation.new(main, ...)`, which makes a deferred handle.
    private static func new(_ call: Call) throws(CallError) -> Answer {
        try call.state.makeRoom(for: .operation)
        if call.isMissing(at: 1), call.count == 0 {
            return .newOperation(LuaOperation(in: call.state, kind: .function, bodyCount: 0), bodyAt: 0)
        }
        if call.operationIfAny(at: 1) != nil {
            throw .message("'new' is a function of the class: call it with '.', as in Operation.new(...)")
        }
        if call.operationClass(at: 1) != nil { throw .message("call 'new' with '.', as in Operation.new(...)") }
        guard call.isTable(at: 1) else { throw call.expected("function or table", at: 1) }
        let options = try call.options(Option.self)
        let main = options[.main]
        if let main, !call.isFunction(at: main) { throw .argument(1, "main must be a function, got a \(call.typeName(at: main))") }
        let isAsynchronous = try options[.asynchronous].map { index throws(CallError) in
            try call.option("asynchronous") { () throws(CallError) in try call.boolean(at: index) }
        }
        let operation = LuaOperation(
            in: call.state, kind: isAsynchronous == true ? .asynchronous : .function, bodyCount: main != nil ? 1 : 0)
        try configure(operation, options, call)
        let body = try call.pushBody(main: main, arguments: options[.arguments])
        return .newOperation(operation, bodyAt: body, completionAt: options[.completionBlock])
    }

    /// Applies the options that are properties of `operation`.
    static func configure(_ operation: LuaOperation, _ options: GivenOptions<Option>, _ call: Call) throws(CallError) {
        if let index = options[.name] {
            try call.setName(of: operation, to: try call.option("name") { () throws(CallError) in try call.requiredString(at: index) })
        }
        if let index = options[.queuePriority] { operation.queuePriority = try call.queuePriority(at: index) }
        if let index = options[.qualityOfService] { operation.qualityOfService = try call.qualityOfService(at: index) }
        if let index = options[.dependencyPolicy] { operation.dependencyPolicy = try call.dependencyPolicy(at: index) }
        if let index = options[.memoryLimit] {
            operation.memoryLimit = try call.option("memoryLimit") { () throws(CallError) in try call.memoryLimit(at: index) }
        }
        if let index = options[.timeout] {
            operation.timeout = try call.option("timeout") { () throws(CallError) in try call.timeLimit(at: index) }
        }
        if let index = options[.exclusive] { try call.setExclusiveKeys(of: operation, at: index) }
        if let index = options[.needs] { try call.setNeeds(of: operation, at: index) }
        if let index = options[.retry] { try call.setRetry(of: operation, at: index) }
        if let index = options[.conditions] { try call.addConditions(to: operation, at: index) }
        try call.setStep(of: operation, options)
        if let index = options[.dependencies] {
            let dependencies = try call.option("dependencies") { () throws(CallError) in try call.operations(at: index) }
            for dependency in dependencies { try call.addDependency(dependency, to: operation) }
        }
        if let index = options[.completionBlock] {
            guard call.isFunction(at: index) else {
                throw .argument(1, "completionBlock must be a function, got a \(call.typeName(at: index))")
            }
            try call.asCallError { try operation.setCompletion(in: call.state, isPresent: true) }
        }
    }

    // MARK: properties

    private static func get(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let operation = call.operationIfAny(at: 1) else { throw call.expected("Operation", at: 1) }
        let lua = operation as? LuaOperation
        let property = Property(number: member)
        switch property {
        case .name: return operation.name.map { .string($0) } ?? .nil
        case .isReady: return .boolean(operation.isReady)
        case .isExecuting: return .boolean(operation.isExecuting)
        case .isFinished: return .boolean(operation.isFinished)
        case .isCancelled: return .boolean(operation.isCancelled)
        case .isAsynchronous: return .boolean(operation.isAsynchronous)
        case .dependencies: return .objects(operation.dependencies, .operation)
        case .queuePriority: return .string(operation.queuePriority.scriptName)
        case .qualityOfService: return .string(operation.qualityOfService.scriptName)
        case .dependencyPolicy: return .string(operation.dependencyPolicy.scriptName)
        case .completionBlock: return .completionBlock
        case .memoryLimit: return lua?.memoryLimit.map { .integer($0) } ?? .nil
        case .timeout: return lua?.timeout.map { .number($0) } ?? .nil
        case .executionBlocks:
            if let lua { return lua.kind == .blocks ? .integer(lua.blockCount) : .nil }
            return (operation as? BlockOperation).map { .integer($0.executionBlocks.count) } ?? .nil
        case .result, .results: return try results(of: lua, isFirst: property == .result, call)
        case .error: return operation.failureForScripts.map { .object($0, .error) } ?? .nil
        case .exclusive, .needs, .retry:
            try call.push([operation.requirement(property)])
            return .values(1)
        case .attempt: return .integer(operation.attempt)
        case .attempts: return .objects(operation.failuresOfAttempts, .error)
        case .group: return .operation(operation.surroundingGroup)
        case .isSkipped: return .boolean(lua?.isSkipped ?? false)
        case nil:
            if let members = operation.memberQueue, let answer = GroupOperationClass.get(of: members, call) { return answer }
            if let name = call.string(at: 2), let value = lua?.storage[name] { return .parcel(value) }
            return lua?.scriptClass != nil ? .classField : .nil
        }
    }

    /// `operation.result` and `operation.results`.
    private static func results(of operation: LuaOperation?, isFirst: Bool, _ call: Call) throws(CallError) -> Answer {
        guard let operation else { return .nil }
        if operation.kind == .group { return operation.resultsOfMembers.map { .results($0, isOneOfEach: true, first: isFirst) } ?? .nil }
        if isFirst && operation.kind == .invocation { try InvocationOperationClass.checkResult(of: operation) }
        guard let results = operation.results else {
            if operation.outcome == .failed { call.state.noteMissingResult(of: operation) }
            return .nil
        }
        return .results(results, isOneOfEach: operation.kind == .blocks, first: isFirst)
    }

    private static func set(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        try call.assigning { () throws(CallError) in try assign(member, call) }
    }

    private static func assign(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let operation = unsafe call.unmanagedOperation(at: 1) else { throw call.expected("Operation", at: 1) }
        return try unsafe operation.with { operation throws(CallError) in
            try assign(Property(number: member), of: operation, call)
        }
    }

    @inline(__always)
    private static func assign(_ property: Property?, of operation: Operation, _ call: Call) throws(CallError) -> Answer {
        // An observer may get a notice.
        if operation.isObserved { try call.state.makeRoom(for: .notice) }
        switch property {
        case .name: try call.setName(of: operation, to: try call.optionalString(at: 3))
        case .queuePriority: operation.queuePriority = try call.queuePriority(at: 3)
        case .qualityOfService: operation.qualityOfService = try call.qualityOfService(at: 3)
        case .dependencyPolicy: operation.dependencyPolicy = try call.dependencyPolicy(at: 3)
        case .isReady:
            let value = try call.boolean(at: 3)
            (operation as? LuaOperation)?.isReadyByItself = value
        case .memoryLimit:
            let limit = try call.memoryLimit(at: 3)
            (operation as? LuaOperation)?.memoryLimit = limit
        case .timeout:
            let limit = try call.timeLimit(at: 3)
            (operation as? LuaOperation)?.timeout = limit
        case .completionBlock:
            let isPresent = call.isFunction(at: 3)
            guard isPresent || call.isMissing(at: 3) else { throw call.expected("function or nil", at: 3) }
            guard let operation = unsafe operation.unmanagedOfScript else {
                throw .message("\(operation.displayName) is the host's; its completion block is, too")
            }
            try call.asCallError { try unsafe operation.with { try $0.setCompletion(in: call.state, isPresent: isPresent) } }
            return .setCompletionBlock(at: isPresent ? 3 : nil)
        case .exclusive: try call.setExclusiveKeys(of: operation, at: 3)
        case .needs: try call.setNeeds(of: operation, at: 3)
        case .retry: try call.setRetry(of: operation, at: 3)
        case .isExecuting, .isFinished, .isCancelled, .isAsynchronous, .dependencies, .result, .results, .error, .executionBlocks,
            .attempt, .attempts, .group, .isSkipped:
            throw .message("'\(property?.rawValue ?? "")' of an operation cannot be assigned")
        case nil:
            if let members = operation.memberQueue, try GroupOperationClass.set(members, call) { break }
            try store(in: operation, call)
        }
        return .nothing
    }

    /// Stores a value under a name in the operation's own storage.
    private static func store(in operation: Operation, _ call: Call) throws(CallError) {
        guard let name = call.string(at: 2) else {
            throw .message("an operation's fields have names, got a \(call.typeName(at: 2)) as a key")
        }
        guard let operation = operation as? LuaOperation else {
            throw .message("\(operation.displayName) is the host's and has no storage")
        }
        try check(storageName: name, call)
        if call.isMissing(at: 3) { return operation.store(nil, as: name) }
        if let limit = call.state.core.usage.limits.storedValues, case let storage = operation.storage, storage[name] == nil,
            storage.count >= limit
        {
            throw .message("\(operation.displayName) may store at most \(limit) values (limits.storedValues)")
        }
        try call.state.makeRoom(for: .field, name.utf8.count)
        do { operation.store(try call.state.encode(count: 1, CLUA_STORED), as: name) } catch { throw CallError(error) }
    }

    static func check(storageName name: String, _ call: Call) throws(CallError) {
        if call.state.acceptedNames.contains(name) { return }
        if Function.names.contains(name) { throw .message("'\(name)' is a method of operations and cannot be assigned") }
        if unsafe clua_class_has(call.lua, 1, 2) { return }
        // Many words are two letters away from a short one. Method names match only if they are nearly the same, because scripts do not
        // assign methods on purpose.
        let near =
            Spelling.nearest(to: name, among: Property.names.filter { $0.utf8.count > 5 }, within: name.utf8.count < 5 ? 1 : 2)
            ?? Spelling.nearest(to: name, among: Property.names, within: 1)
            ?? Spelling.nearest(to: name, among: Function.names.filter { $0.utf8.count > 4 }, within: 1)
        if let near {
            throw .message("an operation has no property '\(name)' (did you mean '\(near)'?)")
        }
        if call.state.acceptedNames.count < 500, name.utf8.count < 100 { call.state.acceptedNames.insert(name) }
    }

    private static func classGet(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        switch ClassProperty(number: member) {
        case .current: .operation(call.state.currentOperation)
        case nil: .nil
        }
    }

    private static func describe(_: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let operation = call.operationIfAny(at: 1) else { throw call.expected("Operation", at: 1) }
        let name = operation.name.map { " '\($0)'" } ?? ""
        return .string("\(operation.scriptClassName)\(name) (\(operation.stateName))")
    }
}

extension Operation {
    /// The operation's `error` in scripts.
    fileprivate var failureForScripts: OperationFailure? {
        if let operation = self as? LuaOperation { return operation.failure }
        guard isFinished, let error else { return nil }
        return OperationFailure(Failure(thrown: error), of: self)
    }

    /// The operation's state in one or two words, for people.
    var stateName: String {
        if isFinished {
            switch outcome {
            case .failed: return "failed"
            case .cancelled: return "cancelled"
            default: return "finished"
            }
        }
        if isExecuting { return isCancelled ? "executing, cancelled" : "executing" }
        if isCancelled { return "cancelled, not finished" }
        return isReady ? "ready" : "waiting"
    }
}

// MARK: why

extension OperationClass {
    /// `operation:why()`: a sentence, and the same information as a table; nil if nothing keeps the operation from running.
    fileprivate static func why(_ operation: Operation, _ call: Call) throws(CallError) -> Answer {
        guard let report = operation.whyNotRunning else { return .nil }
        var fields: [LuaValue: LuaValue] = [:]
        var dependencies: [Operation] = []
        for blocker in report.blockers {
            switch blocker {
            case .notInQueue: fields["isInQueue"] = false
            case .dependency(let dependency): dependencies.append(dependency)
            case .cycle(let path): fields["cycle"] = .array(path.map { .operation($0) })
            case .notReady: fields["isReadyByItself"] = false
            case .suspended(let queue):
                fields["queue"] = .queue(queue)
                fields["isSuspended"] = true
            case .maximumIsZero(let queue):
                fields["queue"] = .queue(queue)
                fields["maxConcurrentOperationCount"] = 0
            case .full(let queue, let executing):
                fields["queue"] = .queue(queue)
                fields["occupiedBy"] = .array(executing.map { .operation($0) })
            case .barrier(let barrier, let queue):
                fields["queue"] = .queue(queue)
                fields["barrier"] = .operation(barrier)
            case .before(let others, let queue):
                fields["queue"] = .queue(queue)
                fields["before"] = .array(others.map { .operation($0) })
            case .key(let key, let holder):
                fields["exclusive"] = .string(key)
                if let holder { fields["occupiedBy"] = .array([.operation(holder)]) }
            case .resource(let name, _, _, _, let executing):
                fields["resource"] = .string(name)
                fields["occupiedBy"] = .array(executing.map { .operation($0) })
            case .rateLimit(let queue, let next):
                fields["queue"] = .queue(queue)
                fields["secondsToNextStart"] = .number(next / .seconds(1))
            case .retry(let attempt, _, let next):
                fields["nextAttempt"] = .integer(attempt)
                fields["secondsToNextStart"] = .number(next / .seconds(1))
            case .waiting(let purpose): fields["waits"] = .string(purpose)
            case .groupNotStarted(let group): fields["group"] = .operation(group)
            case .members: break  // of groups that execute, which nothing keeps from running
            case .notTaken(let queue): fields["queue"] = .queue(queue)
            }
        }
        if !dependencies.isEmpty {
            fields["unfinishedDependencies"] = .array(dependencies.map { .operation($0) })
            let neverAdded = dependencies.filter { !$0.isExecuting && !$0.isInQueue && !$0.isFinished }
            if !neverAdded.isEmpty { fields["neverAdded"] = .array(neverAdded.map { .operation($0) }) }
        }
        try call.push([.string("\(operation.displayName) \(report.reason(naming: .script))"), .table(fields)])
        return .values(2)
    }
}
