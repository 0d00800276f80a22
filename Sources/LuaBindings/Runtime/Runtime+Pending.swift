import OpEngine

/// The work that waits for the main state: callbacks, operations of the main queue, timers, the ends of programs.
///
/// This work waits until a call that waits or drains is inside. A host that is not inside all the time learns by one of three announcements
/// that there is work to `drain`. The runtime announces work once, and again after a `drain` or another call that waits. Another call may have
/// run the work before the host drains.
extension Runtime {
    /// Enters, runs the work that waits for the main state, and does not wait for more.
    ///
    /// While a call that a task awaits is inside, `drain` returns false at once: that call runs the work, or announces it when it leaves.
    ///
    /// - Parameters:
    ///   - limit: the maximum number of callbacks and operations to run; nil for all that have arrived.
    ///   - time: the time after which nothing more begins; nil for no limit. At least one callback or operation runs, and none is
    ///     interrupted.
    /// - Returns: whether work is left, which is announced again.
    /// - Throws: an error if the runtime is closed.
    @discardableResult
    public func drain(limit: Int? = nil, for time: Duration? = nil) throws(LuaError) -> Bool {
        let entrance = engine.entrance
        while !entrance.tryEnter("drain(limit:for:)") {
            // Otherwise the host's loop would call again at once. The thread inside announces the remaining work when it leaves.
            engine.mainInbox.keepSilent()
            switch entrance.holder {
            case .nobody: continue
            case .patientThread: return false
            case .thread: entrance.refuse("drain(limit:for:)")
            }
        }
        defer { entrance.leave() }
        return try inside("drain(limit:for:)") { state in
            state.drain(limit == nil && time == nil ? nil : DrainLimit(count: limit ?? .max, time: time))
            return !engine.mainInbox.isEmpty
        }
    }

    /// A file descriptor that becomes readable when there is work to `drain`: for a host that polls. The descriptor belongs to the runtime. Do
    /// not read from it. -1 if the process has no descriptor left. From any thread, while the runtime is open.
    public var wakeDescriptor: Int32 { engine.mainInbox.fileDescriptor }

    /// A closure that is called when there is work to `drain`, and when it is set if there is work already. The thread that causes this
    /// calls the closure, and may be inside the runtime. So the closure must be cheap, and make the host call `drain` soon. From any
    /// thread.
    ///
    /// ```swift
    /// runtime.onWake = { queue.async { _ = try? runtime.drain() } }
    /// ```
    public var onWake: (@Sendable () -> Void)? {
        get { engine.mainInbox.onWake }
        set { engine.mainInbox.onWake = newValue }
    }

    /// An element whenever there is work to `drain`, at once if there is work already. Ends when the runtime is closed. From any thread;
    /// each call makes a sequence of its own.
    ///
    /// ```swift
    /// for await _ in runtime.wakes() { try runtime.drain() }
    /// ```
    public func wakes() -> AsyncStream<Void> { engine.mainInbox.wakes() }
}
