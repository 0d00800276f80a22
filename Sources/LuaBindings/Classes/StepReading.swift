import CLua
import OpEngine
import OpStore

/// The options of operations that ask the store, as scripts write them: `memoize`, `inputs`, `outputs` and others.
extension Call {
    private static let optionsOfSteps: [OperationClass.Option] = [
        .memoize, .inputs, .outputs, .atomic, .depfile, .env, .version, .keepOnFailure,
    ]

    /// Reads the options of `Operation.new`.
    func setStep(of operation: LuaOperation, _ options: GivenOptions<OperationClass.Option>) throws(CallError) {
        guard Call.optionsOfSteps.contains(where: { options[$0] != nil }) else { return }
        var step = StepOptions()
        if let index = options[.memoize] { step.memoizes = try option("memoize") { () throws(CallError) in try boolean(at: index) } }
        if let index = options[.inputs] { try readInputs(of: &step, at: index) }
        if let index = options[.outputs] { step.outputs = try paths(at: index, "outputs") }
        if let index = options[.depfile] { try readDepfile(of: &step, at: index) }
        if let index = options[.env] { step.environment = try variables(at: index) }
        if let index = options[.version] { step.version = try version(at: index) }
        if let index = options[.keepOnFailure] {
            step.keepsOutputsOnFailure = try option("keepOnFailure") { () throws(CallError) in try boolean(at: index) }
        }
        if let index = options[.atomic] { step.isAtomic = try option("atomic") { () throws(CallError) in try boolean(at: index) } }
        if step.isAtomic, step.outputs.isEmpty { throw .message("'atomic' has no effect without 'outputs'") }
        guard step.asksStore else {
            let idle = [OperationClass.Option.atomic, .env, .version, .keepOnFailure].first { options[$0] != nil }
            guard let idle else { return }
            throw .message("'\(idle.rawValue)' has no effect without 'memoize', 'inputs' or 'outputs'")
        }
        guard state.core.store != nil else {
            throw .message(
                "operations with 'memoize', 'inputs' or 'outputs' are not available here: the host of this script keeps no store")
        }
        if operation.isAsynchronous {
            throw .message("an asynchronous operation cannot ask the store: do its work in an operation that ends with 'main'")
        }
        guard let main = options[.main] else { throw .message("'main' is missing: only a function can be skipped") }
        // A step with outputs is identified by them.
        if step.outputs.isEmpty { step.place = functionLabel(at: main) }
        let names = step.inputs + step.outputs + step.environment + [step.depfile ?? "", step.depfileDirectory ?? "", step.place]
        let bytes = names.reduce(0) { $0 + $1.utf8.count + 32 }
        try state.makeRoom(for: .step, bytes)
        operation.count(.step, bytes)
        operation.setStep(step)
    }

    /// `operation:output(path)`: the name under which the body, which is this code, writes the file.
    func temporaryOutput(of operation: Operation) throws(CallError) -> Answer {
        guard let operation = operation as? LuaOperation, operation === state.currentOperation else {
            throw .message("\(operation.displayName) does not run this code: call 'output' in its function")
        }
        if !state.core.sandbox.allowsFiles {
            throw .message("'output' is not available here: the host of this script does not allow files")
        }
        let path = isMissing(at: 2) ? nil : try requiredString(at: 2)
        do throws(Failure) { return .string(try operation.temporaryName(forOutput: path)) } catch { throw CallError(error) }
    }

    /// Reads a path, an array of paths, or `{ path, optional = true }`. An element of an array may have that form, too.
    private func readInputs(of step: inout StepOptions, at index: Int32) throws(CallError) {
        if !isTable(at: index) { return step.inputs = try paths(at: index, "inputs") }
        var optional: Set<String> = []
        let groups = try array(at: index) { position, number throws(CallError) in
            let name = "inputs[\(number)]"
            let group = try self.paths(at: position, name)
            if self.isTable(at: position), try self.isOptional(position, name) { optional.formUnion(group) }
            return group
        }
        step.inputs = try limited(groups.flatMap { $0 }, "inputs")
        step.optionalInputs = try isOptional(index, "inputs") ? Set(step.inputs) : optional
    }

    /// Reads a path, or `{ path, cwd = folder }`.
    private func readDepfile(of step: inout StepOptions, at index: Int32) throws(CallError) {
        let names = try paths(at: index, "depfile")
        guard names.count == 1 else { throw .message("depfile must be one path, got \(names.count)") }
        step.depfile = names[0]
        if isTable(at: index) {
            step.depfileDirectory = try field("cwd", of: index, "depfile") { value throws(CallError) in try requiredString(at: value) }
        }
    }

    /// The field `optional` of a list of inputs.
    private func isOptional(_ index: Int32, _ name: String) throws(CallError) -> Bool {
        try field("optional", of: index, name) { value throws(CallError) in try boolean(at: value) } ?? false
    }

    /// The only field that a table of paths may have; nil if it has none.
    private func field<Value>(
        _ field: String, of index: Int32, _ name: String, _ read: (Int32) throws(CallError) -> Value
    ) throws(CallError) -> Value? {
        var found: Value?
        try forEachField(of: index) { key, value throws(CallError) in
            if type(at: key) == LUA_TNUMBER { return }
            guard string(at: key) == field else {
                throw .message("\(name) has paths and the field '\(field)', got the field '\(string(at: key) ?? typeName(at: key))'")
            }
            found = try option("\(name).\(field)") { () throws(CallError) in try read(value) }
        }
        return found
    }

    private func paths(at index: Int32, _ name: String, isOne: Bool = false) throws(CallError) -> [String] {
        if !state.core.sandbox.allowsFiles {
            throw .message("'\(name)' is not available here: the host of this script does not allow files")
        }
        return try strings(at: index, name, isOne: isOne)
    }

    private func variables(at index: Int32) throws(CallError) -> [String] {
        if !state.core.sandbox.allowsSystem {
            throw .message("'env' is not available here: the host of this script does not allow the environment")
        }
        return try strings(at: index, "env").sorted()
    }

    /// A string, or an array of strings unless `isOne`.
    private func strings(at index: Int32, _ name: String, isOne: Bool = false) throws(CallError) -> [String] {
        if let text = string(at: index) { return [text] }
        guard isTable(at: index), !isOne else {
            throw .message(
                "\(name) must be a string\(isOne ? "" : " or an array of strings"), got \(Grammar.indefinite(typeName(at: index)))")
        }
        let all = try array(at: index) { position, number throws(CallError) in
            if let text = string(at: position) { return text }
            throw .message("\(name)[\(number)] must be a string, got \(Grammar.indefinite(typeName(at: position)))")
        }
        return try limited(all, name)
    }

    /// The names, unless they are too many or too long for the limits of the host.
    private func limited(_ names: [String], _ name: String) throws(CallError) -> [String] {
        let limits = state.core.usage.limits
        if let limit = limits.storedValues, names.count > limit {
            throw .message("\(name) may have at most \(limit) elements (limits.storedValues)")
        }
        if let limit = limits.valueBytes, names.reduce(0, { $0 + $1.utf8.count }) > limit {
            throw .message("\(name): the names have more than \(limit) bytes (limits.valueBytes)")
        }
        return names
    }

    /// The digest of a value without objects, which is the same in another run.
    private func version(at index: Int32) throws(CallError) -> Digest {
        guard unsafe lua_checkstack(lua, 1) != 0 else { throw .message("stack overflow") }
        let top = count
        defer { unsafe lua_settop(lua, top) }
        unsafe lua_pushvalue(lua, index)
        do throws(Failure) {
            let parcel = try state.encode(count: 1, CLUA_STORED)
            if parcel.hasReferences {
                throw Failure(message: "version must be plain data, got something with operations, queues or other objects")
            }
            return try StepKey.digest(of: parcel, CLUA_STORED).digest
        } catch { throw CallError(error) }
    }
}
