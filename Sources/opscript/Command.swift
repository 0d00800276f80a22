import CTerminal
import Glibc
import LuaBindings
import OpEngine
import Reports

/// Carries out the command line.
struct Command {
    private let options: Options
    /// The command's own name, as messages show it.
    private let name: String

    init(_ options: Options, name: String) {
        self.options = options
        self.name = name
    }

    /// Runs the command and returns the exit status.
    func run() -> Int32 {
        if options.checksOnly { return check() }
        let (jobserver, placeCount) = jobserver()
        let recording: Recording?
        do throws(RecordingError) { recording = try Recording.prepare(options) } catch {
            report(error.message)
            return 1
        }
        do {
            var configuration = Runtime.Configuration()
            configuration.ignoresEnvironment = options.ignoresEnvironment
            configuration.workerCount = [options.limits.workerCount, placeCount].compactMap { $0 }.min()
            configuration.jobserver = jobserver
            configuration.operationMemoryLimit = options.limits.memory
            if let grace = options.limits.grace { configuration.programGrace = grace }
            configuration.scriptsMayExit = true
            configuration.prefersSpeedToMemory = true
            let messages = StoreMessages(options.store, name: name)
            configuration.store = store(telling: messages)
            configuration.cluster = try options.cluster.cluster()
            // The row of progress shows the absence of workers itself.
            if !isPrompt, Progress.showsRow(options.progress) { configuration.cluster?.tellsOfAbsence = false }
            configuration.scriptsMayChooseClusters = true
            let runtime = try Runtime(configuration)
            runtime.whenScriptExits { [unowned runtime] operation in scriptExits(runtime, in: operation) }
            recording?.begin(in: runtime)
            defer { recording?.finish() }
            defer { messages.finish(plainOperationCount: runtime.plainOperationCount) }
            // Operations that are still running after an error or a signal get a moment to end.
            defer { runtime.close(deadline: .seconds(2)) }
            if let seconds = options.limits.timeout { runtime.requestExit(Self.timeoutStatus, after: seconds) }
            if options.limits.endsAtFirstFailure { runtime.requestExitAtFirstFailure(1) }
            let attachServer = try serveAttachedPrompts(of: runtime)
            defer { attachServer?.finish() }
            let progress = isPrompt ? nil : Progress(options.progress, runtime.monitor)
            defer { progress?.finish() }
            return try run(in: runtime)
        } catch let error as LuaError {
            report(error)
        } catch {
            report((error as? AttachError).map { "--attach: \($0.message)" } ?? "\(error)")
        }
        return 1
    }

    /// The jobserver of the run, and the number of its places if it is make's. Called before the process opens files, since a file could have the
    /// number of a descriptor that make has not passed on.
    private func jobserver() -> (Jobserver?, placeCount: Int?) {
        let flags = MakeFlags(Environment.value("MAKEFLAGS") ?? "")
        if flags.hasJobserver, options.limits.usesJobserver, let jobserver = Jobserver(ofMake: flags) {
            return (jobserver, flags.placeCount)
        }
        // Programs would look for make's jobserver at descriptors that they do not have.
        if flags.hasJobserver { Environment.set("MAKEFLAGS", flags.withoutJobserver) }
        guard options.limits.usesJobserver else { return (nil, nil) }
        if flags.hasJobserver {
            report("make's jobserver is unavailable, so this run has places of its own: begin the recipe's line with '+'")
        }
        return (Jobserver(options.limits.jobserverStyle, besides: flags), nil)
    }

    /// The store of finished work.
    private func store(telling messages: StoreMessages) -> Runtime.Store {
        var store = Runtime.Store(directory: options.storeDirectory)
        if let limit = options.store.limit { store.limit = limit }
        store.mode = options.store.mode
        store.explain = { messages.tell($0) }
        return store
    }

    /// Lets `opscript attach` reach the run if the command has `--attach` or a prompt. A prompt also runs if that is not possible.
    private func serveAttachedPrompts(of runtime: Runtime) throws -> AttachServer? {
        guard options.mayBeAttachedTo || (isPrompt && isatty(STDIN_FILENO) != 0) else { return nil }
        try runtime.openConsole(ConsoleScript.source, name: "=prompt")
        if !options.mayBeAttachedTo { return try? AttachServer(runtime, title: options.title) }
        let server = try AttachServer(runtime, title: options.title)
        Message.write("opscript: 'opscript attach \(getpid())' shows and changes this run\n")
        return server
    }

    /// The status with which the program `timeout` ends.
    private static let timeoutStatus: Int32 = 124

    /// Compiles the scripts, reports their errors and returns the exit status.
    private func check() -> Int32 {
        var status: Int32 = 0
        for file in options.filesToCheck {
            do throws(LuaError) {
                // Each script has its own runtime, so that scripts do not affect one another.
                let runtime = try Runtime(Runtime.Configuration())
                defer { runtime.close() }
                try runtime.check(file: file)
            } catch {
                report(error)
                status = 1
            }
        }
        return status
    }

    private func run(in runtime: Runtime) throws(LuaError) -> Int32 {
        if options.showsLuaVersion { print(Runtime.luaCopyright) }
        try runtime.setArguments(options.words, script: options.script ?? 0)
        try runtime.catchInterrupts()
        Runtime.handleKeys()
        Runtime.whenTerminalIsLent({ ct_lend() }, { ct_take_back() })
        do throws(LuaError) {
            try runInitialisation(in: runtime)
            for step in options.steps {
                endIfForked(runtime)
                try perform(step, in: runtime)
            }
            endIfForked(runtime)
            if options.script != nil { try runtime.run(script: options.file) }
            if isBare, !isPrompt { try runtime.run(file: nil) }
        } catch {
            endIfForked(runtime, after: error)
            return end(runtime, after: error)
        }
        if isPrompt {
            let prompt = LivePrompt(runtime)
            if !options.showsLuaVersion { print(prompt == nil ? Runtime.luaCopyright : LivePrompt.greeting) }
            if let prompt { try prompt.run() } else { try Session(runtime).run() }
            endIfForked(runtime)
            if runtime.requestedExitStatus == nil, let signal = runtime.lastInterrupt, signal != SIGINT { return cancel(runtime) }
        }
        endIfForked(runtime)
        return try finish(runtime)
    }

    /// Whether the command ends with a prompt.
    private var isPrompt: Bool { options.isInteractive || (isBare && isatty(STDIN_FILENO) != 0) }

    /// Whether the command line names nothing to run.
    private var isBare: Bool { options.script == nil && !options.executes && !options.showsLuaVersion }

    /// Runs `LUA_INIT`: a file if the value starts with `@`, otherwise the value itself as a chunk.
    private func runInitialisation(in runtime: Runtime) throws(LuaError) {
        guard !options.ignoresEnvironment else { return }
        for variable in ["LUA_INIT_5_4", "LUA_INIT"] {
            guard let text = Environment.value(variable) else { continue }
            if text.hasPrefix("@") {
                try runtime.run(file: String(text.dropFirst()))
            } else {
                try runtime.run(text, name: "=\(variable)")
            }
            return
        }
    }

    private func perform(_ step: Options.Step, in runtime: Runtime) throws(LuaError) {
        switch step {
        case .execute(let source): try runtime.run(source, name: "=(command line)")
        case .require(let module, let global): try runtime.require(module, as: global)
        case .enableWarnings: try runtime.enableWarnings()
        }
    }

    // MARK: ending

    /// Ends a process that the script has forked, when a part of the command line has ended there, as `lua` would. It has none of the threads of its
    /// parent, which reports the run.
    private func endIfForked(_ runtime: Runtime, after error: LuaError? = nil) {
        guard runtime.isForked else { return }
        if let error { report(error) }
        runtime.closeInForkedProcess()
        Glibc.exit(error == nil ? 0 : 1)
    }

    /// Runs the remaining operations and reports errors. Returns the exit status.
    private func finish(_ runtime: Runtime) throws(LuaError) -> Int32 {
        let ending = try runtime.finish()
        if let status = runtime.requestedExitStatus { return exit(runtime, status, ending.unreadFailures, ending.failedPrograms) }
        if ending.wasInterrupted { return cancel(runtime, ending.unreadFailures, ending.failedPrograms) }
        report(ending.unreadFailures)
        for sentence in ending.stuckOperations + ending.failedPrograms { report(sentence) }
        let failed = ending.unreadFailures.count
        let dropped = runtime.droppedOperationCount
        let consequence = dropped > 0 ? "; \(dropped) did not run because of their dependencies" : ""
        if failed > 0 { report("\(failed) operation\(failed == 1 ? "" : "s") failed\(consequence)") }
        let isClean =
            ending.unreadFailures.isEmpty && ending.stuckOperations.isEmpty && ending.failedPrograms.isEmpty
            && ending.callbackErrorCount == 0
        return isClean ? 0 : 1
    }

    /// Handles an error of the script, which a signal may have caused: stops the running operations. Returns the exit status.
    private func end(_ runtime: Runtime, after error: LuaError) -> Int32 {
        if let status = runtime.requestedExitStatus { return exit(runtime, status) }
        if runtime.lastInterrupt != nil, runtime.unfinishedOperationCount > 0 { return cancel(runtime) }
        // First, because one of them may have caused the error.
        report(runtime.takeUnreadFailures())
        for sentence in runtime.takeFailedPrograms() { report(sentence) }
        let notes = runtime.missingResult(causing: error).map { ["  because \($0) failed"] } ?? []
        Message.write(ErrorReport(error).text(prefix: "\(name): ", notes: notes))
        runtime.passInterruptToPrograms()
        runtime.interruptAllOperations()
        return 1
    }

    /// Handles `os.exit` of an operation, `--timeout` and `--fail-fast`: stops the running operations and reports the failures that no code
    /// has read. Returns `status`.
    private func exit(_ runtime: Runtime, _ status: Int32, _ failures: [OperationFailure] = [], _ programs: [String] = []) -> Int32 {
        // Before the runtime ends the other programs.
        for sentence in programs + runtime.takeFailedPrograms() { report(sentence) }
        runtime.interruptAllOperations()
        for name in runtime.close(deadline: .seconds(2)) { report("\(name) did not stop") }
        let unread = failures + runtime.takeUnreadFailures()
        switch runtime.exitCause {
        case .failure(let first):
            // The first failure is reported even if the script has read its error.
            report([first] + unread.filter { $0 !== first })
            report("\(first.operationDescription) failed first: all others were cancelled (--fail-fast)")
        case .deadline:
            report(unread)
            report("the run took longer than \(options.limits.timeoutText) s: everything was cancelled (--timeout)")
        case .script, nil: report(unread)
        }
        return status
    }

    /// The script has called `os.exit`: the process ends now, without its operations.
    private func scriptExits(_ runtime: Runtime, in operation: Operation?) {
        report(runtime.takeUnreadFailures())
        for sentence in runtime.takeFailedPrograms() { report(sentence) }
        let count = runtime.unfinishedOperationCount - (operation == nil ? 0 : 1)
        if count > 0 { report("os.exit has dropped \(count) operation\(count == 1 ? "" : "s") that had not finished") }
    }

    private func report(_ failures: [OperationFailure]) {
        for group in FailureGroup.all(of: failures) { Message.write(group.report(prefix: "\(name): ")) }
    }

    private func report(_ error: LuaError) {
        Message.write(ErrorReport(error).text(prefix: "\(name): "))
    }

    /// Handles a signal that arrived while operations existed, and that ends the process. Returns the exit status, should the signal have no effect.
    private func cancel(_ runtime: Runtime, _ failures: [OperationFailure] = [], _ programs: [String] = []) -> Int32 {
        for sentence in programs + runtime.takeFailedPrograms() { report(sentence) }
        // Operations that the signal stops are no news.
        report((failures + runtime.takeUnreadFailures()).filter { $0.kind != .interrupted })
        let signal = runtime.lastInterrupt ?? SIGINT
        runtime.passInterruptToPrograms()
        runtime.interruptAllOperations()
        for name in runtime.close(deadline: .seconds(5)) { report("\(name) did not stop") }
        EndingSignal.set(signal)
        return 128 + signal
    }

    private func report(_ text: String) { Message.write("\(name): \(text)\n") }
}
