import OpEngine
import OpPlatform
import Synchronization

extension Runtime {
    /// Work that a host wants to end together, such as one run of a script, or everything that one user does.
    ///
    /// A script that runs in `enter(in:_:)` or `perform(in:_:)` belongs to the group, and so does everything that the script makes:
    /// operations, timers, programs, observations and their callbacks, and what those make in turn. A group may be part of another one.
    ///
    /// ```swift
    /// let alice = Runtime.Group(of: runtime)
    /// let run = Runtime.Group(in: alice)
    /// try runtime.enter(in: run) { try runtime.run(script) }
    /// run.cancel()    // this run
    /// alice.cancel()  // all that Alice has started
    /// ```
    ///
    /// A group has no limits of its own: `Runtime.Limits` apply to each run in it.
    ///
    /// An operation belongs to the group of the code that made it, even if other code adds it to a queue. Operations of a `LuaFunction` belong
    /// to the group in which `Runtime.function` was called. Operations that are no `LuaOperation` belong to no group.
    ///
    /// - Concurrency: safe from every thread. The runtime may be closed while the group still exists.
    public final class Group: Sendable {
        /// The group that this one is part of.
        public let parent: Group?
        let core: RuntimeCore
        private let cancelled = Atomic<Bool>(false)
        private let members = Guarded(Members())

        /// The members of the group and of its parts, except operations.
        private struct Members {
            var calls: [(call: StoppableCall, state: LuaState)] = []
            var timers: [ObjectIdentifier: ScriptTimer] = [:]
            var processes: [ObjectIdentifier: ChildProcess] = [:]
        }

        /// Makes a group of a runtime.
        public init(of runtime: Runtime) {
            core = runtime.core
            parent = nil
        }

        /// Makes a part of another group.
        public init(in parent: Group) {
            core = parent.core
            self.parent = parent
        }

        /// Whether this group, or one that it is part of, was cancelled.
        public var isCancelled: Bool { cancelled.load(ordering: .acquiring) || (parent?.isCancelled ?? false) }

        /// The operations of the group that have not finished. O(unfinished operations of the runtime).
        public func unfinishedOperations() -> [LuaOperation] {
            (core.engine.unfinishedOperations() + core.operationsStartedByHand).compactMap { operation in
                guard let operation = operation as? LuaOperation, contains(operation) else { return nil }
                return operation
            }
        }

        /// Ends everything that belongs to the group, for good. Stops scripts and bodies that run, as `LuaOperation.interrupt` does.
        /// Cancels the operations that wait, and the timers. Ends the programs, as `close` does. Drops callbacks. Work of the group that
        /// starts later ends at once. `enter(in:_:)` and `perform(in:_:)` throw `CancellationError`.
        ///
        /// Does not wait: `unfinishedOperations` returns those that are left, such as a body inside a C function that does not return.
        public func cancel() {
            if !cancelled.exchange(true, ordering: .acquiringAndReleasing) { stopMembers(after: 0.05) }
        }

        /// Stops the members. Repeats that while calls or bodies run, because code may start meanwhile, or overlook the request.
        ///
        /// - Parameter seconds: the time until the repetition.
        private func stopMembers(after seconds: Double) {
            let (hasCalls, timers, processes) = members.withLock { members in
                // The lock keeps the calls, and so their states, from ending.
                for (call, state) in members.calls {
                    if call.stop(because: .cancelled) { state.requestStop(of: call) } else { state.repeatStop(of: call) }
                }
                return (!members.calls.isEmpty, Array(members.timers.values), Array(members.processes.values))
            }
            for timer in timers { timer.cancel(in: nil) }
            for process in processes { process.end() }
            let operations = unfinishedOperations(), executing = operations.filter(\.isExecuting)
            // Waiting operations are interrupted first, so that none of them starts.
            for operation in operations.filter({ !$0.isExecuting }) + executing where operation.stopReason == nil { operation.interrupt() }
            guard hasCalls || !executing.isEmpty else { return }
            core.io.after(seconds) { self.stopMembers(after: min(2 * seconds, 1)) }
        }

        private func contains(_ operation: LuaOperation) -> Bool {
            var group = unsafe operation.origin.group?.takeUnretainedValue()
            while let current = group {
                if current === self { return true }
                group = current.parent
            }
            return false
        }

        // MARK: members

        /// Adds a call that begins in `state`. Returns false if it must not begin.
        func begin(_ call: StoppableCall, in state: LuaState) -> Bool {
            change { $0.calls.append((call, state)) }
            if !isCancelled { return true }
            end(call)
            return false
        }

        func end(_ call: StoppableCall) { change { members in members.calls.removeAll { $0.call === call } } }

        func add(_ timer: ScriptTimer) {
            change { $0.timers[ObjectIdentifier(timer)] = timer }
            // The timer may have ended before it was added, or it must end.
            if !timer.isPending { remove(timer) } else if isCancelled { timer.cancel(in: nil) }
        }

        func remove(_ timer: ScriptTimer) { change { $0.timers[ObjectIdentifier(timer)] = nil } }

        func add(_ process: ChildProcess) {
            change { $0.processes[ObjectIdentifier(process)] = process }
            if !process.isRunning { remove(process) } else if isCancelled { process.end() }
        }

        func remove(_ process: ChildProcess) { change { $0.processes[ObjectIdentifier(process)] = nil } }

        /// Changes the members here and in the groups that this one is part of.
        private func change(_ body: (inout Members) -> Void) {
            var group: Group? = self
            while let current = group {
                current.members.withLock { body(&$0) }
                group = current.parent
            }
        }
    }

    /// Enters the runtime for several calls that belong to a group. See `enter(_:)`.
    ///
    /// - Parameters:
    ///   - group: the group to which the calls and everything that they start belong.
    ///   - body: makes the calls. If the group is cancelled meanwhile, a script that runs is stopped.
    /// - Returns: what `body` returns, even if the group is cancelled meanwhile.
    /// - Throws: what `body` throws; `CancellationError` if the group is cancelled before that; a `LuaError` if the runtime is closed.
    @discardableResult
    public func enter<Result>(in group: Group, _ body: () throws -> Result) throws -> Result {
        precondition(group.core === core, "opscript: enter(in:_:) with a group of another runtime")
        return try enter {
            guard let main else { throw LuaError.closed }
            let call = StoppableCall("enter(in:_:)")
            do { return try main.run(call, for: group, body) } catch { throw call.isStopped ? call.stopError : error }
        }
    }
}

extension LuaState {
    /// Runs `body`, a callback, as part of `group`, which may stop it, and within the limits of a run.
    ///
    /// - Parameter budget: the budget of that run.
    @inline(__always)
    func within<Result>(
        _ group: Runtime.Group?, by budget: RunBudget?, _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        if let link { try link.prepare(for: self) }
        if let group {
            do { return try run(StoppableCall("a callback"), for: group) { try limited(by: budget, body) } } catch {
                throw error as? Failure ?? Failure(stop: .interrupted)
            }
        }
        let outer = unsafe switchGroup(to: nil)
        defer { unsafe switchGroup(to: outer) }
        return try limited(by: budget, body)
    }

    /// Runs `body` as part of `group`, which may stop it.
    ///
    /// - Throws: what `body` throws; `CancellationError` if the group was cancelled before.
    fileprivate func run<Result>(_ call: StoppableCall, for group: Runtime.Group, _ body: () throws -> Result) throws -> Result {
        guard group.begin(call, in: self) else { throw CancellationError() }
        let outer = unsafe switchGroup(to: Unmanaged.passUnretained(group))
        defer {
            unsafe switchGroup(to: outer)
            group.end(call)
        }
        return try run(call, body)
    }
}
