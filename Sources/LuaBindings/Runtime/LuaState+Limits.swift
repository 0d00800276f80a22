import CLua
import OpEngine
import OpPlatform
import Synchronization

/// A call into Lua that the limits for runs apply to: a call of the host, or the call of a callback.
final class LimitedRun: Sendable {
    let budget: RunBudget
    private let reason = Atomic<Int32>(0)

    /// Whether the run still lasts a second after the first request to stop it. Each read counts as one more request.
    var isOverdue: Bool { Double(requests.wrappingAdd(1, ordering: .relaxed).oldValue) * LuaOperation.repetition > 1 }
    private let requests = Atomic<Int>(0)

    /// The reason why the run must stop; nil if it need not.
    var stopReason: StopReason? { StopReason(rawValue: reason.load(ordering: .acquiring)) }

    init(_ budget: RunBudget) { self.budget = budget }

    func stop(_ reason: StopReason) { self.reason.store(reason.rawValue, ordering: .releasing) }
}

extension LuaState {
    /// Gives C the limits that it checks itself: the size of values that are sent, and output. Before the first script runs.
    func obeyLimits() {
        let limits = core.usage.limits
        if let bytes = limits.valueBytes { unsafe clua_limit_parcels(running, bytes) }
        if let ledger = core.ledger { unsafe clua_set_ledger(running, ledger.pointer) }
        if let output = unsafe core.outputLimit { unsafe clua_limit_output(running, output) }
    }

    /// Calls `body`, which runs a script or a callback, within `budget`, or within a new one if `budget` is nil. Code of an operation has the
    /// limits of the operation instead.
    func limited<Result>(by budget: RunBudget?, _ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        guard core.usage.limitsRuns, currentOperation == nil else { return try body() }
        let budget = budget ?? RunBudget(core.usage.limits)
        if let reason = budget.stopReason { throw budget.explained(Failure(stop: reason)) }
        if budget.secondsLeft != nil { try core.io.start() }
        let run = LimitedRun(budget), outer = currentRun
        let pointer = unsafe UnsafeRawPointer(Unmanaged.passUnretained(run).toOpaque())
        currentRun = run
        defer { currentRun = outer }
        do throws(Failure) {
            return try unsafe stoppable(as: pointer) { () throws(Failure) in
                // The timer starts here, because earlier it would find nothing to stop.
                let timer = budget.secondsLeft.map { seconds in
                    core.io.after(max(seconds, 0), isLimit: true) { [core, self] in core.stop(run, in: self) }
                }
                defer { timer?.cancel() }
                if let shared = unsafe budget.instructions { unsafe clua_limit_instructions(running, .max, shared) }
                return try body()
            }
        } catch { throw budget.explained(error) }
    }

    /// Stops `run` if it still runs here. Returns whether it does. The caller must keep the state from being closed.
    func requestStop(of run: LimitedRun) -> Bool {
        let pointer = unsafe Unmanaged.passUnretained(run).toOpaque()
        guard unsafe clua_has_body(main, pointer) else { return false }
        link?.requestStopOfCallback(.timeout, isUrgent: run.isOverdue)
        if run.stopReason == nil {
            run.stop(.timeout)
            unsafe clua_request_stop(main, pointer, CLUA_STOP_TIMEOUT)
        } else {
            _ = unsafe clua_repeat_stop(main, pointer)
        }
        inbox.wake()
        return true
    }

    /// Calls `body`, which runs a body of `operation`, within the limits for operations and for its run.
    func limited(_ operation: LuaOperation, _ body: () throws(Failure) -> Void) throws(Failure) {
        guard core.usage.limitsOperations else { return try body() }
        let limits = core.usage.limits, budget = operation.budgetOrNew()
        if let budget, let reason = budget.stopReason { throw budget.explained(Failure(stop: reason)) }
        let seconds = [limits.operationSeconds, budget?.secondsLeft].compactMap { $0 }
        if !seconds.isEmpty { try core.io.start() }
        let timers = seconds.map { seconds in
            core.io.after(max(seconds, 0), isLimit: true) { operation.stop(.timeout) }
        }
        defer { for timer in timers { timer.cancel() } }
        let shared = unsafe budget?.instructions
        if unsafe limits.operationInstructions != nil || shared != nil {
            unsafe clua_limit_instructions(running, limits.operationInstructions.map(Int64.init) ?? .max, shared)
        }
        do throws(Failure) { try body() } catch { throw budget?.explained(error) ?? error }
    }
}

extension LuaState {
    /// Makes sure that the runtime may keep another thing of a kind, perhaps by a garbage collection, which may run finalizers.
    ///
    /// - Throws: an error that names the limit.
    @inline(__always)
    func makeRoom(for kind: Kept, _ bytes: Int = 0) throws(CallError) {
        if let ledger = core.ledger, unsafe !clua_make_room(running, kind.bytes + bytes) { throw .message(ledger.refusal) }
    }

    /// Counts a queue that a script is about to make.
    func takeQueue() throws(CallError) {
        try makeRoom(for: .queue)
        try core.usage.takeQueue()
    }
}

extension RuntimeCore {
    /// Stops `run` in `state`, and repeats that until the run has ended.
    func stop(_ run: LimitedRun, in state: LuaState) {
        let goesOn = states.withLock { states in states.contains { $0 === state } && state.requestStop(of: run) }
        if goesOn { io.after(LuaOperation.repetition) { self.stop(run, in: state) } }
    }
}
