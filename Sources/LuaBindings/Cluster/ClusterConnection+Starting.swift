import OpCluster
@_spi(Locking) import OpEngine

/// Connecting takes seconds if a server does not answer, so it happens on a thread of its own, and whoever waits for it can be interrupted.
extension ClusterConnection {
    enum Start {
        /// With what is to be called in the end.
        case underWay([@Sendable () -> Void], mustClose: Bool = false)
        case ended(LuaError?)
    }

    /// Connects. To be called once.
    func connect() {
        // A thread of libnats that brings the answer could not close the connection.
        onNewThread { [self] in
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

    /// Calls `body` when there is a connection, or an error.
    func whenStarted(_ body: @escaping @Sendable () -> Void) {
        let hasEnded = start.withLock { start in
            guard case .underWay(let waiters, let mustClose) = start else { return true }
            start = .underWay(waiters + [body], mustClose: mustClose)
            return false
        }
        if hasEnded { body() }
    }

    /// Whether there is a connection, or an error.
    var hasStarted: Bool { start.withLock { if case .ended = $0 { true } else { false } } }

    /// Why there is no connection; nil if there is one, or none yet.
    var startError: LuaError? { start.withLock { if case .ended(let error) = $0 { error } else { nil } } }

    /// Returns false if the connection closes itself, when it has started.
    func mayCloseNow() -> Bool {
        start.withLock { start in
            guard case .underWay(let waiters, _) = start else { return true }
            start = .underWay(waiters, mustClose: true)
            return false
        }
    }
}
