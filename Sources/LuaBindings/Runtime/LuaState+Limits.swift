import CLua
@_spi(Locking) import OpEngine
import Synchronization

/// A call into Lua that the limits for runs apply to.
final class LimitedRun: Sendable {
    private let reason = Atomic<Int32>(0)

    /// Why the run has to stop; nil if it does not.
    var stopReason: StopReason? { StopReason(rawValue: reason.load(ordering: .acquiring)) }

    func stop(_ reason: StopReason) { self.reason.store(reason.rawValue, ordering: .releasing) }
}

extension LuaState {
    /// Makes the state obey the runtime's sandbox and limits. Before the first script runs.
    func obeyLimits() {
        let limits = core.usage.limits
        if let bytes = limits.valueBytes { unsafe clua_limit_parcels(running, bytes) }
        if let output = unsafe core.outputLimit { unsafe clua_limit_output(running, output) }
    }

    /// Calls `body`, which runs a script or a callback, within the limits for runs. Code of an operation has the operation's limits instead.
    func limited<Result>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        guard core.usage.limitsRuns, currentOperation == nil else { return try body() }
        let limits = core.usage.limits, run = LimitedRun(), outer = currentRun
        let pointer = unsafe Unmanaged.passUnretained(run).toOpaque()
        currentRun = run
        let timer = limits.runSeconds.map { seconds in
            core.io.after(seconds) { [core, self] in core.stop(run, in: self) }
        }
        var frame = unsafe clua_suspended_body()
        let lua = unsafe running
        do throws(Failure) {
            return try unsafe withUnsafeMutablePointer(to: &frame) { frame throws(Failure) in
                unsafe clua_begin_body(lua, pointer, frame)
                defer {
                    if unsafe clua_end_body(lua, frame) { core.engine.endReplacingWorker() }
                    timer?.cancel()
                    currentRun = outer
                }
                if let count = limits.runInstructions { unsafe clua_limit_instructions(lua, Int64(count)) }
                return try body()
            }
        } catch {
            var failure = error
            switch error.stop {
            case .timeout: failure.message += ": the run took longer than \((limits.runSeconds ?? 0).scriptText) s (limits.runSeconds)"
            case .instructions: failure.message += ": the run needs more than \(limits.runInstructions ?? 0) (limits.runInstructions)"
            default: break
            }
            throw failure
        }
    }

    /// Stops `run` if it still runs here. The same caution as for `runs` applies.
    func requestStop(of run: LimitedRun) -> Bool {
        let pointer = unsafe Unmanaged.passUnretained(run).toOpaque()
        guard unsafe clua_has_body(main, pointer) else { return false }
        if run.stopReason == nil {
            run.stop(.timeout)
            unsafe clua_request_stop(main, pointer, CLUA_STOP_TIMEOUT)
        } else {
            _ = unsafe clua_repeat_stop(main, pointer)
        }
        inbox.wake()
        return true
    }

    /// Calls `body`, which runs a body of `operation`, within the limits for operations.
    func limited(_ operation: LuaOperation, _ body: () throws(Failure) -> Void) throws(Failure) {
        guard core.usage.limitsOperations else { return try body() }
        let limits = core.usage.limits
        let timer = limits.operationSeconds.map { seconds in core.io.after(seconds) { operation.stop(.timeout) } }
        defer { timer?.cancel() }
        if let count = limits.operationInstructions { unsafe clua_limit_instructions(running, Int64(count)) }
        try body()
    }
}

extension RuntimeCore {
    /// Stops `run` in `state`, and goes on until it has ended.
    func stop(_ run: LimitedRun, in state: LuaState) {
        let goesOn = states.withLock { states in states.contains { $0 === state } && state.requestStop(of: run) }
        if goesOn { io.after(LuaOperation.repetition) { self.stop(run, in: state) } }
    }
}
