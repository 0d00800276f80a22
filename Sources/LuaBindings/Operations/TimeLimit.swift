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
        let timer = operation.core.io.after(seconds) {
            // Another one may have been set meanwhile.
            if operation.timeLimit === self { operation.stop(.timeout) }
        }
        operation.whenFinished { timer.cancel() }
    }
}

extension LuaOperation {
    /// Seconds of executing after which it is cancelled and stopped; nil for no limit. Set while it executes, it counts from then.
    var timeout: Double? {
        get { timeLimit?.seconds }
        set {
            let limit = newValue.map(TimeLimit.init(seconds:))
            timeLimit = limit
            if isExecuting { limit?.begin(for: self) }
        }
    }
}
