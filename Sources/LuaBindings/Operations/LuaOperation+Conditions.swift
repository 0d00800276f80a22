import CLua
import OpEngine

/// Functions of scripts that decide about an operation: conditions, and `when` of a retry policy. They run in the state of the thread that asks.
extension LuaOperation {
    /// Adds a function, which was sent for the operation, as a condition.
    ///
    /// - Parameter label: what messages call the condition.
    func addCondition(_ function: Parcel, named label: String) {
        function.makeUnowned(referencesTo: self)
        registerReferences(of: function)
        let index = withFields { fields in
            fields.rareInUse.conditions.append(function)
            return fields.rareInUse.conditions.count - 1
        }
        addCondition(
            OperationPrecondition(name: label) { operation in
                unsafe operation.unmanagedOfScript.map { unsafe $0.with { $0.ask(conditionAt: index) } } ?? .holds
            })
    }

    private func ask(conditionAt index: Int) -> OperationPrecondition.Answer {
        let function = ifOutOfLine { fields -> Parcel? in
            guard let rare = fields.rare, index < rare.conditions.count else { return nil }
            return exchange(&rare.conditions[index], with: .empty)
        }
        // The operation was cancelled meanwhile, or the runtime was closed.
        guard let function = function ?? nil else { return .holds }
        // The time of the operation begins when it starts.
        defer { if !isCancelled { beginAgain() } }
        do throws(Failure) {
            let values = try call(function)
            if values.first?.isTruthy ?? false { return .holds }
            return .failed(reason: values.count > 1 ? values[1].text ?? values[1].description : "it returned false")
        } catch {
            let failure = OperationFailure(error, kind: kind(of: error), of: self)
            record(failure)
            return .error(failure)
        }
    }

    /// Calls a function that was sent for this operation: with the operation, or with `failure` if that is given.
    func call(_ function: Parcel, about failure: OperationFailure? = nil) throws(Failure) -> [LuaValue] {
        guard let state = core.stateOfCurrentThread() else {
            throw Failure(message: "\(displayName) can ask its functions only in a queue of its runtime's engine")
        }
        return try state.call(function, for: self, about: failure)
    }
}

extension LuaValue {
    /// Whether a condition in Lua holds for the value.
    var isTruthy: Bool { self != .nil && self != .boolean(false) }
}
