import OpEngine
import OpPlatform
import Synchronization

/// The time that an operation may spend executing.
final class TimeLimit: Sendable {
    let seconds: Double
    private let hasBegun = Atomic<Bool>(false)
    /// Stops the clock; nil if it does not run.
    private let clock = Guarded<(@Sendable () -> Void)?>(nil)

    init(seconds: Double) { self.seconds = seconds }

    /// Starts the clock, because the operation executes now. Later calls do nothing.
    func begin(for operation: LuaOperation) {
        guard !hasBegun.exchange(true, ordering: .relaxed) else { return }
        // The limit ends an asynchronous operation even if no other code can, so a wait for that operation is not stuck.
        let hold = operation.isAsynchronous ? EngineHold(operation.core.engine) : nil
        let timer = operation.core.io.after(seconds, isLimit: true) {
            // The script may have set another limit meanwhile.
            if operation.timeLimit === self { operation.timeHasRunOut(self) }
            hold?.end()
        }
        let stopClock: @Sendable () -> Void = {
            timer.cancel()
            hold?.end()
        }
        clock.withLock { $0 = stopClock }
        operation.whenFinished(for: self, stopClock)
    }

    /// Stops the clock, because an attempt of `operation` has ended.
    func end(for operation: LuaOperation) {
        guard let stopClock = clock.withLock({ $0.take() }) else { return }
        operation.forgetFinishHandlers(of: self)
        stopClock()
    }
}

/// Keeps an engine from being quiescent until `end` is called. Further calls of `end` do nothing.
private final class EngineHold: Sendable {
    private let engine: Engine
    private let hasEnded = Atomic<Bool>(false)

    init(_ engine: Engine) {
        self.engine = engine
        engine.hold()
    }

    func end() { if !hasEnded.exchange(true, ordering: .acquiringAndReleasing) { engine.release() } }
}

extension LuaOperation {
    /// The execution time in seconds after which the operation is cancelled and stopped; nil for no limit. If set during execution, the
    /// time counts from then.
    var timeout: Double? {
        get { timeLimit?.seconds }
        set {
            let limit = newValue.map(TimeLimit.init(seconds:))
            timeLimit = limit
            // Store the limit first: a body that begins meanwhile then finds it. A body that had begun already is handled here.
            if isExecuting || core.runs(self) { limit?.begin(for: self) }
        }
    }
}
