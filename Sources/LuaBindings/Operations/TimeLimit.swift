import OpEngine
import Synchronization

/// How long an operation may execute.
final class TimeLimit: Sendable {
    let seconds: Double
    private let hasBegun = Atomic<Bool>(false)

    init(seconds: Double) { self.seconds = seconds }

    /// The operation executes: from now on its time runs. Once.
    func begin(for operation: LuaOperation) {
        guard !hasBegun.exchange(true, ordering: .relaxed) else { return }
        // An asynchronous operation will end, even when nothing is left that could finish it: a wait for it is not in vain.
        let hold = operation.isAsynchronous ? EngineHold(operation.core.engine) : nil
        let timer = operation.core.io.after(seconds) {
            // Another one may have been set meanwhile.
            if operation.timeLimit === self { operation.stop(.timeout) }
            hold?.end()
        }
        operation.whenFinished {
            timer.cancel()
            hold?.end()
        }
    }
}

/// Keeps an engine from being quiescent until it is ended, once.
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
    /// Seconds of executing after which it is cancelled and stopped; nil for no limit. Set while it executes, it counts from then.
    var timeout: Double? {
        get { timeLimit?.seconds }
        set {
            let limit = newValue.map(TimeLimit.init(seconds:))
            timeLimit = limit
            // Its state knows first: what has begun there may have looked for a limit before.
            if isExecuting || core.runs(self) { limit?.begin(for: self) }
        }
    }
}
