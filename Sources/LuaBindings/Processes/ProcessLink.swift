import CIO
import CLua
import OpEngine
import OpPlatform
import Synchronization

#if canImport(Glibc)
    import Glibc
#endif

/// The worker process of a worker's state. Bodies run in the process, and the state answers their calls. The process starts with the first
/// body, and anew after it has ended.
@safe
final class ProcessLink: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because other threads use `life` only, which has a lock. The rest belongs to the state's thread.

    /// A process that exists, and its runs.
    @safe
    private struct Life {
        let process: OpaquePointer
        let pidfd: Int32
        let control: Int32
        /// The runs, the innermost last. The process runs several if a body starts an operation itself.
        var runs: [(operation: ObjectIdentifier, serial: UInt64)] = []
        var wasKilled = false

        /// Whether the process cannot run another body, although its last body may have returned: `kill` was too late for that body, or the process
        /// has ended for another reason since.
        var isOver: Bool { wasKilled || cio_worker_has_ended(pidfd) }

        func requestStop(of serial: UInt64, _ reason: StopReason) {
            var message = clua_stop_message(serial: serial, reason: reason.rawValue, unused: 0)
            // A process that does not read its messages is not worth a wait.
            unsafe send(control, &message, MemoryLayout<clua_stop_message>.size, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
        }

        // The descriptor is open here, because `takeEnd` takes `life` before it closes the descriptor.
        mutating func kill() {
            wasKilled = true
            cio_kill_worker(pidfd)
        }
    }

    private let executable: Runtime.Isolation.Executable
    private let core: RuntimeCore
    private let life = Guarded<Life?>(nil)
    private var serial: UInt64 = 0
    /// The version of the runtime's published values that the process has.
    private var appliedVersion = 0
    private var registrationCount = 0
    private var preludeCount = 0

    init(executable: Runtime.Isolation.Executable, core: RuntimeCore) { (self.executable, self.core) = (executable, core) }

    // MARK: running

    /// Runs a body in the process, and answers its calls in `state`, the stand-in.
    ///
    /// - Parameter parcel: nil if the body is in the handle in `state`.
    func run(
        _ operation: LuaOperation, _ body: clua_body, _ parcel: UnsafePointer<clua_parcel>?, _ arguments: FlatValues?, limit: Int32,
        memoryLimit: Int, in state: LuaState, _ results: inout clua_parcel
    ) throws(Failure) {
        let process = try unsafe started(for: state)
        self.serial += 2
        let serial = self.serial
        life.withLock { $0?.runs.append((ObjectIdentifier(operation), serial)) }
        defer { life.withLock { _ = $0?.runs.popLast() } }
        // From here on, a request to stop finds the run, even while the process prepares for it. An earlier request must not be lost.
        if let reason = operation.stopReason { throw Failure(stop: reason) }
        try unsafe bringUpToDate(process, state, for: operation)
        let own: Parcel?
        if unsafe parcel == nil {
            own = unsafe try state.encodeBody(of: operation, number: body.number, handleAt: 0)
        } else if let parcel = unsafe parcel, let arguments {
            own = try unsafe state.add(arguments, to: parcel)
        } else {
            own = nil
        }
        defer { withExtendedLifetime(own) {} }
        guard let sent = unsafe own?.pointer ?? parcel else { throw Failure(message: "opscript bug: a body without code") }
        let usage = core.usage.limits
        var run = unsafe clua_process_run()
        unsafe run.body = body
        unsafe run.parcel = sent
        unsafe run.result_limit = limit
        unsafe run.memory_limit = memoryLimit
        unsafe run.serial = serial
        unsafe run.instructions = usage.operationInstructions.map(Int64.init) ?? .max
        unsafe run.shared_instructions = operation.budget?.instructions
        unsafe run.processor_seconds = usage.operationSeconds.map { UInt32(min(max($0, 0), 1e8).rounded(.up)) + Self.graceSeconds } ?? 0
        do throws(Failure) {
            try unsafe state.attempt { lua, failure in unsafe clua_process_run_body(lua, process, &run, &results, &failure) }
        } catch { throw explained(error, operation) }
    }

    /// Processor seconds that a process has beyond the time limit of an operation. The host should have stopped the operation by then.
    private static let graceSeconds: UInt32 = 10

    /// The failure of an operation whose process has ended; any other failure unchanged. The next body gets a new process.
    private func explained(_ failure: Failure, _ operation: LuaOperation?) -> Failure {
        guard failure.isProcessLost else { return failure }
        // If the process ran several bodies, the outermost one forgets the process.
        let isBusy = life.withLock { life in life.map { unsafe clua_process_is_busy($0.process) } ?? false }
        let end = isBusy ? "has ended" : takeEnd(waiting: Self.milliseconds)
        // The process was killed because it did not react to the stop.
        if let reason = operation?.stopReason { return Failure(stop: reason) }
        var lost = Failure(message: "\(operation.map { "the worker process of \($0.displayName)" } ?? "a worker process") \(end)")
        lost.isProcessLost = true
        return lost
    }

    /// Starts the process, unless it runs.
    func start(for state: LuaState) throws(Failure) { _ = try unsafe started(for: state) }

    /// Makes the process ready for a callback of a script. The callback may call into the innermost part of a body that runs there.
    func prepare(for state: LuaState) throws(Failure) { try unsafe bringUpToDate(started(for: state), state, for: nil) }

    // MARK: the life of a process

    private func started(for state: LuaState) throws(Failure) -> OpaquePointer {
        if let process = unsafe life.withLock({ unsafe $0?.process }) {
            let isBusy = unsafe clua_process_is_busy(process)
            // If a busy process has ended, its body notices that.
            if unsafe !clua_process_is_lost(process), isBusy || life.withLock({ $0?.isOver == false }) { return unsafe process }
            // A callback has ended the process. Code that still runs in it must return first.
            if isBusy {
                var failure = Failure(message: "a worker process has ended")
                failure.isProcessLost = true
                throw failure
            }
            _ = takeEnd(waiting: Self.milliseconds)
        }
        var worker = cio_worker()
        let error = unsafe executable.path.withCString { executable in
            unsafe WorkerProcess.argument.withCString { argument in
                unsafe cio_start_worker([executable, argument, nil], isSilent, &worker)
            }
        }
        guard error == 0 else {
            var failure = Failure(message: "the worker process cannot be started: \(unsafe String(cString: cio_error_text(error)))")
            failure.isProcessLost = true
            throw failure
        }
        guard let process = unsafe clua_process_new(state.main, worker.socket) else {
            _ = Glibc.close(worker.control)
            var end = cio_end()
            _ = unsafe cio_await_worker(worker.pidfd, 0, &end)
            throw Failure(message: "not enough memory for a worker process")
        }
        life.withLock { unsafe $0 = Life(process: process, pidfd: worker.pidfd, control: worker.control) }
        Worker.current?.works(through: worker.process)
        (appliedVersion, registrationCount, preludeCount) = (0, 0, 0)
        var settings = settings(state.number)
        do throws(Failure) {
            let milliseconds = Int32(executable.setUpTime / .milliseconds(1))
            try unsafe state.attempt { _, failure in unsafe clua_process_start(process, &settings, milliseconds, &failure) }
        } catch {
            let explained = explained(error, nil)
            if !error.isProcessLost { _ = takeEnd(waiting: 0) }
            throw explained
        }
        return unsafe process
    }

    /// Whether scripts have no way to use descriptors.
    private var isSilent: Bool { !core.sandbox.allowsFiles && !core.sandbox.allowsSystem && !core.sandbox.allowsCModules }

    private func settings(_ number: Int) -> clua_process_settings {
        let sandbox = core.sandbox
        var settings = clua_process_settings()
        settings.protocol = UInt32(CLUA_PROCESS_PROTOCOL)
        settings.restrictions = core.restrictions
        settings.shows_warnings = core.showsWarnings.load(ordering: .relaxed)
        settings.has_seed = core.randomSeed != nil
        settings.seed = core.randomSeed ?? 0
        settings.number = UInt64(number)
        settings.state_limit = core.stateMemoryLimit ?? 0
        settings.parcel_limit = core.usage.limits.valueBytes ?? 0
        settings.confinement.allows_programs = sandbox.allowsSystem || sandbox.allowsCModules
        settings.confinement.allows_files = sandbox.allowsFiles || sandbox.allowsModuleFiles
        settings.confinement.allows_privileges = sandbox.allowsSystem
        // Values that leave the state are copied twice, and the allocator needs room.
        settings.confinement.more_bytes = core.stateMemoryLimit.map { 3 * $0 + 256 << 20 } ?? 0
        return settings
    }

    /// Gives the process the values that the runtime has published since the last body. Costs one atomic load if nothing has changed.
    ///
    /// - Parameter operation: the operation whose body runs next; nil for a callback.
    private func bringUpToDate(_ process: OpaquePointer, _ state: LuaState, for operation: LuaOperation?) throws(Failure) {
        guard core.publishedVersion != appliedVersion else { return }
        let published = core.published
        do throws(Failure) {
            for registration in published.registrations.dropFirst(registrationCount) {
                try unsafe state.attempt { _, failure in unsafe registration.register(inProcess: process, &failure) }
                registrationCount += 1
            }
            for setting in published.settings {
                try unsafe state.attempt { _, failure in unsafe clua_process_apply_settings(process, setting.pointer, &failure) }
            }
            for prelude in published.preludes.dropFirst(preludeCount) {
                try unsafe state.attempt { _, failure in unsafe clua_process_run_prelude(process, prelude.body.pointer, &failure) }
                preludeCount += 1
            }
        } catch { throw explained(error, operation) }
        appliedVersion = published.version
    }

    /// Milliseconds that a process has to end by itself.
    private static let milliseconds: Int32 = 1000

    /// Ends the process. The process closes its Lua state, unless no code there could notice that.
    func close() {
        guard let process = unsafe life.withLock({ unsafe $0?.process }) else { return }
        let mayNotice = !isSilent || core.sandbox.allowsFinalizers
        if mayNotice { unsafe clua_process_end(process) }
        _ = takeEnd(waiting: mayNotice ? Self.milliseconds : 0)
    }

    /// Forgets the process. Returns the words for its end in messages.
    private func takeEnd(waiting milliseconds: Int32) -> String {
        let taken = life.withLock { life in
            defer { life = nil }
            return life
        }
        guard let taken else { return "has ended" }
        Worker.current?.works(through: 0)
        let isLate = unsafe clua_process_is_late(taken.process)
        var end = cio_end()
        let hasEnded = unsafe cio_await_worker(taken.pidfd, isLate ? 0 : milliseconds, &end)
        _ = Glibc.close(taken.control)
        unsafe clua_process_free(taken.process)
        if isLate {
            let seconds = (executable.setUpTime / .seconds(1)).scriptText
            return "did not answer within \(seconds) s: does '\(executable.path)' call WorkerProcess.serveIfRequested() first in its main?"
        }
        guard hasEnded, end.status != CLUA_WORKER_LEFT else { return "closed its connection" }
        if end.signal_number == 0 && end.status == -1 { return "has ended" }
        if end.signal_number == 0 { return "exited with status \(end.status)" }
        let name = unsafe cio_signal_name(end.signal_number).map { unsafe "SIG\(String(cString: $0))" }
        return "was ended by signal \(end.signal_number)\(name.map { " (\($0))" } ?? "")"
    }

    // MARK: stopping, from any thread

    /// Asks the process to stop the body of `operation`, if it runs the body. Repeating this does no harm. Returns whether the body runs.
    @discardableResult
    func requestStop(of operation: LuaOperation, _ reason: StopReason) -> Bool {
        life.withLock { life in
            guard let life, let run = life.runs.last(where: { $0.operation == ObjectIdentifier(operation) }) else { return false }
            life.requestStop(of: run.serial, reason)
            return true
        }
    }

    /// Asks the process to stop the callback that it runs. If `isUrgent`, kills a process that computes.
    func requestStopOfCallback(_ reason: StopReason, isUrgent: Bool) {
        life.withLock { life in
            guard let process = unsafe life?.process else { return }
            let serial = unsafe clua_process_callback(process)
            if serial != 0 { life?.requestStop(of: serial, reason) }
            if isUrgent, serial != 0, unsafe clua_process_computes(process) { life?.kill() }
        }
    }

    /// Kills the process if it computes the body of `operation`. Returns whether it does.
    func kill(computing operation: LuaOperation) -> Bool {
        life.withLock { life in
            guard let current = life, current.runs.contains(where: { $0.operation == ObjectIdentifier(operation) }),
                unsafe clua_process_computes(current.process)
            else { return false }
            life?.kill()
            return true
        }
    }
}
