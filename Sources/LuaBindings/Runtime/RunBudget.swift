import CLua

/// The time and the instructions of a run: a call of the host into Lua, with all the callbacks and operations that result from it.
///
/// A `Runtime.Group` is passed on in the same way, but differs. A host makes a group, which may have any number of runs and be part of
/// another group. The runtime makes the budget of a run, and only if such limits are set. A group knows its members, and ends them at once.
/// A budget does not know its users, because each user has a timer and a counter of its own. An operation is in the group of the code that
/// has made it, which costs the operation nothing. The operation uses the budget of the code that has first added or started it, because
/// that code lets it run.
// Safety: `instructions` is atomic and lives as long as the budget.
@safe
final class RunBudget: @unchecked Sendable {
    private let limits: Runtime.Limits
    private let deadline: ContinuousClock.Instant?
    /// Nil if there is no limit.
    let instructions: OpaquePointer?

    init(_ limits: Runtime.Limits) {
        self.limits = limits
        deadline = limits.runSeconds.map { .after($0) }
        unsafe instructions = limits.runInstructions.map { unsafe Self.allowance(of: $0) }
    }

    deinit { unsafe clua_allowance_free(instructions) }

    /// An allowance for C. Ends the process if there is no memory, as Swift does for its own objects: no allowance would mean no limit.
    static func allowance(of count: Int) -> OpaquePointer {
        guard let allowance = unsafe clua_allowance_new(Int64(count)) else { fatalError("opscript: not enough memory") }
        return unsafe allowance
    }

    /// Nil if there is no limit.
    var secondsLeft: Double? { deadline.map { ContinuousClock.now.duration(to: $0) / .seconds(1) } }

    /// The limit that was reached; nil if none was.
    var stopReason: StopReason? {
        if let secondsLeft, secondsLeft <= 0 { return .timeout }
        return unsafe clua_allowance_is_spent(instructions) ? .instructions : nil
    }

    /// Adds to a failure that the run was over, if that is its cause.
    func explained(_ failure: Failure) -> Failure {
        guard let reason = failure.stop, reason == stopReason else { return failure }
        var failure = failure
        if reason == .timeout {
            failure.message += ": the run took longer than \((limits.runSeconds ?? 0).scriptText) s (limits.runSeconds)"
        } else {
            failure.message += ": the run needs more than \(limits.runInstructions ?? 0) (limits.runInstructions)"
        }
        return failure
    }
}

extension LuaState {
    /// The budget of the code that runs here; nil if it has none.
    var budget: RunBudget? {
        guard core.usage.limitsRuns else { return nil }
        if let operation = currentOperation as? LuaOperation { return operation.budget }
        return currentRun?.budget
    }
}

extension LuaOperation {
    /// The budget of the code that has added or started the operation. Nil if no limit applies, or if that was the host and no body has begun.
    var budget: RunBudget? { core.usage.limitsRuns ? rare { $0.budget } : nil }

    /// Makes the operation use the budget of the code that runs in `state`, unless it has one.
    func joinRun(of state: LuaState) { if let budget = state.budget { setBudget(budget) } }

    /// The budget of the operation. If the host has added the operation, the budget is its own.
    func budgetOrNew() -> RunBudget? {
        guard core.usage.limitsRuns else { return nil }
        return setBudget(RunBudget(core.usage.limits))
    }

    @discardableResult
    private func setBudget(_ budget: RunBudget) -> RunBudget {
        withFields { fields in
            let current = fields.rareInUse.budget ?? budget
            fields.rareInUse.budget = current
            return current
        }
    }
}
