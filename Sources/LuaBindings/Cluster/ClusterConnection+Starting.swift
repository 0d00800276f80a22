import OpCluster
import OpEngine
import OpPlatform

/// Connecting takes seconds if a server does not answer. So it has a thread of its own, and a caller that waits for it can be interrupted.
extension ClusterConnection {
    enum Start {
        /// The functions are called when the attempt has ended. If `mustClose`, the connection closes then.
        case underWay([@Sendable () -> Void], mustClose: Bool = false)
        case ended(LuaError?)
    }

    /// Connects. Call it once.
    func connect() {
        // This thread closes the connection after an error. The thread of libnats that brings the answer cannot.
        runApart { [self] in
            let ended = Awaited<ClusterError?>()
            coordinator.start { ended.give($0) }
            let error = ended.get()
            let (waiters, mustClose) = start.withLock { start -> ([@Sendable () -> Void], Bool) in
                guard case .underWay(let waiters, let mustClose) = start else { return ([], false) }
                start = .ended(mustClose ? LuaError.closed : error.map { LuaError(message: $0.description) })
                return (waiters, mustClose)
            }
            if error != nil || mustClose { coordinator.close() }
            for waiter in waiters { waiter() }
        }
    }

    /// Calls `body` when the connection exists or has failed.
    func whenStarted(_ body: @escaping @Sendable () -> Void) {
        let hasEnded = start.withLock { start in
            guard case .underWay(let waiters, let mustClose) = start else { return true }
            start = .underWay(waiters + [body], mustClose: mustClose)
            return false
        }
        if hasEnded { body() }
    }

    /// Whether the connection exists or has failed.
    var hasStarted: Bool { start.withLock { if case .ended = $0 { true } else { false } } }

    /// The reason why the connection has failed; nil if it has not.
    var startError: LuaError? { start.withLock { if case .ended(let error) = $0 { error } else { nil } } }

    /// Returns false while the attempt to connect lasts. In this case, the connection closes itself after the attempt.
    func mayCloseNow() -> Bool {
        start.withLock { start in
            guard case .underWay(let waiters, _) = start else { return true }
            start = .underWay(waiters, mustClose: true)
            return false
        }
    }
}
