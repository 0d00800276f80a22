import CIO
import CLua
import Glibc
import OpEngine

/// The object that `opscript.process` and `opscript.sh` return.
enum ProcessClass {
    enum Function: String, Member {
        case wait, kill, read, lines, write, closeInput
    }

    enum Property: String, Member {
        case pid, isRunning, stdout, stderr
    }

    enum Option: String, OptionKey {
        static let names = OptionNames<Option>()
        case cwd, env, input, stdin, stdout, stderr, terminal, timeout, grace, captureLimit, slots, onExit, onLine, label
    }

    static var description: clua_class {
        let functions = unsafe Function.table
        let properties = unsafe Property.table
        return unsafe clua_class(
            name: StaticName.process, kind: ObjectKind.process.rawValue, base: nil, functions: functions.start,
            function_count: functions.count,
            properties: properties.start, property_count: properties.count, class_properties: NoMember.table.start, class_property_count: 0,
            call: { unsafe LuaState.answer($0, $1, $2, ProcessClass.function) },
            get: { unsafe LuaState.answer($0, $1, $2, ProcessClass.get) },
            set: { unsafe LuaState.answer($0, $1, $2, ProcessClass.refuse) },
            class_get: { _, _, _ in }, describe: { unsafe LuaState.answer($0, $1, $2, ProcessClass.describe) })
    }

    // MARK: starting

    /// `opscript.process { program, argument, …, option = }`. An argument may be an array of arguments.
    static func start(_ call: Call) throws(CallError) -> Answer {
        guard call.isTable(at: 1) else { throw call.expected("table { program, arguments... }", at: 1) }
        let options = try call.options(Option.self, besidesElements: true)
        var arguments: [[UInt8]] = []
        _ = try call.array(at: 1) { index, _ throws(CallError) in
            if arguments.isEmpty || !call.isTable(at: index) { return try append(index) }
            _ = try call.array(at: index) { index, _ throws(CallError) in try append(index) }
        }
        func append(_ index: Int32) throws(CallError) {
            let what = arguments.isEmpty ? "the program" : "argument \(arguments.count) of the program"
            arguments.append(try call.argument(at: index, what))
        }
        guard let program = arguments.first, !program.isEmpty else { throw .argument(1, "the table does not name a program") }
        return try start(arguments, name: String(decoding: program, as: UTF8.self), options, call)
    }

    /// `opscript.sh "command"` or `opscript.sh { "command", option = }`.
    static func startShell(_ call: Call) throws(CallError) -> Answer {
        let command: [UInt8]
        var options = GivenOptions<Option>()
        if call.isTable(at: 1) {
            options = try call.options(Option.self, besidesElements: true)
            let elements = try call.array(at: 1) { index, _ throws(CallError) in try call.argument(at: index, "the command") }
            guard let first = elements.first, elements.count == 1 else {
                throw .argument(1, "one command expected in the table, got \(elements.count)")
            }
            command = first
        } else {
            guard call.type(at: 1) == LUA_TSTRING else { throw call.expected("command or table", at: 1) }
            command = try call.argument(at: 1, "the command")
        }
        let text = String(decoding: command, as: UTF8.self)
        let name = text.count > 60 ? "\(text.prefix(59))…" : text
        return try start([Array("/bin/sh".utf8), Array("-c".utf8), command], name: name, options, call)
    }

    private static func start(
        _ arguments: [[UInt8]], name: String, _ options: GivenOptions<Option>, _ call: Call
    ) throws(CallError) -> Answer {
        let state = call.state
        let timeout: Double? = try call.option("timeout") { () throws(CallError) in
            try options[.timeout].map { index throws(CallError) in try call.timeLimit(at: index) } ?? nil
        }
        var texts = CTexts()
        texts.append(list: arguments)
        let jobserver = state.core.jobserver?.forProgram(of: state.currentOperation, state.core.engine)
        texts.append(list: try environment(options[.env], besides: jobserver, call))
        texts.append(try options[.cwd].map { index throws(CallError) in try call.argument(at: index, "cwd") })
        let hasTerminal = try options[.terminal].map { index throws(CallError) in try call.flag("terminal", at: index) } ?? false
        var outputs = [
            try output(options[.stdout], "stdout", &texts, call),
            // Programs ask their questions on stderr.
            try output(options[.stderr], "stderr", or: hasTerminal ? CIO_INHERIT : CIO_CAPTURE, &texts, call),
        ]
        let grace = try options[.grace].map { index throws(CallError) in try call.grace(at: index) } ?? state.core.programGrace
        var input = try input(options, &texts, call)
        if hasTerminal, options[.stdin] == nil, options[.input] == nil { input.kind = CIO_INPUT_TERMINAL }
        if let index = options[.onExit], !call.isFunction(at: index) { throw option("onExit", "function", at: index, call) }
        try readPipes(&outputs, options, call)
        let operation = state.currentOperation as? LuaOperation
        texts.append(try label(&outputs, options[.label], or: operation?.name ?? name, call))
        let captureLimit = try captureLimit(options[.captureLimit], in: operation, call)
        let slots = try slots(options[.slots], call)
        if state.core.io.isEnding { throw .message("the runtime is being closed: it starts no programs") }

        try state.makeRoom(for: .program, 2 * captureLimit)
        try state.core.usage.takeProcess()
        let program = ChildProcess(
            name: name, timeout: timeout, captureLimit: captureLimit, slots: slots, hasTerminal: hasTerminal,
            callsBack: options[.onExit] != nil, hasLines: options[.onLine] != nil, in: state)
        let process = ScriptProcess(program)
        do throws(CallError) {
            if hasTerminal { try ProgramTerminal.take(for: name, in: state) }
            var hasStarted = false
            defer { if hasTerminal, !hasStarted { ProgramTerminal.release() } }
            try unsafe texts.withPointers { texts throws(CallError) in
                var description = unsafe cio_program()
                unsafe description.arguments = texts.list(0)
                unsafe description.environment = texts.list(1)
                unsafe description.directory = texts.text(2)
                unsafe description.outputs = (
                    cio_output(kind: outputs[0], path: texts.text(3)), cio_output(kind: outputs[1], path: texts.text(4))
                )
                unsafe description.input_kind = input.kind
                unsafe description.input = texts.text(5)
                if input.kind == CIO_TEXT, let index = options[.input] {
                    unsafe description.input = clua_string(call.lua, index, &description.input_count)
                }
                unsafe description.label = texts.text(6)
                unsafe description.timeout = timeout.map(IOThread.nanoseconds) ?? 0
                unsafe description.capture_limit = captureLimit
                unsafe description.jobserver = jobserver?.pointer
                unsafe description.grace = IOThread.nanoseconds(grace)
                unsafe description.has_terminal = hasTerminal
                defer { hasStarted = program.number != 0 }
                guard let source = input.source else { return try unsafe program.start(description, for: operation, as: process) }
                try source.lend(to: name) { descriptor throws(CallError) in
                    unsafe description.input_descriptor = descriptor
                    try unsafe program.start(description, for: operation, as: process)
                }
            }
        } catch {
            state.core.usage.returnProcess()
            throw error
        }
        do throws(Failure) {
            try program.openPipes(of: process)
            if let index = options[.onLine], let lines = process.stream(1) { try call.callBack(lines, at: index) }
        } catch {
            program.end()
            throw CallError(error)
        }
        return .object(process, .process, callbackAt: options[.onExit])
    }

    /// The bytes that an output may have: the option, at most half the memory limit of the operation, so that Lua's copy has room.
    static func captureLimit(_ index: Int32?, in operation: LuaOperation?, _ call: Call) throws(CallError) -> Int {
        var limit = ChildProcess.captureLimit
        if let index {
            guard let bytes = call.integer(at: index), bytes >= 0 else {
                throw .argument(1, "captureLimit must be a number of bytes, got \(call.typeName(at: index))")
            }
            limit = min(bytes, Int.max / 2)
        }
        if let ledger = call.state.core.ledger { limit = min(limit, ledger.limit / 8) }
        let memory = operation?.memoryLimitInForce ?? 0
        return memory == 0 ? limit : min(limit, memory / 2)
    }

    /// The places of the program among those of the running operations: 1 by default, 0 for a program that mostly waits.
    private static func slots(_ index: Int32?, _ call: Call) throws(CallError) -> Int {
        guard let index else { return 1 }
        guard let count = call.integer(at: index), count >= 0 else {
            let given = call.integer(at: index).map { "\($0)" } ?? call.typeName(at: index)
            throw .argument(1, "slots must be a number of places, 0 or more, got \(given)")
        }
        return count
    }

    static func option(_ name: String, _ expected: String, at index: Int32, _ call: Call) -> CallError {
        .argument(1, "\(name) must be a \(expected), got a \(call.typeName(at: index))")
    }

    private static func isMakeFlags(_ change: [UInt8]) -> Bool { change.prefix { $0 != UInt8(ascii: "=") }.elementsEqual(Jobserver.name) }

    /// The variables to set, as "NAME=value", and to remove, as "NAME".
    private static func environment(_ index: Int32?, besides jobserver: Jobserver.Opened?, _ call: Call) throws(CallError) -> [[UInt8]] {
        let changes = try environment(index, call)
        guard let variable = jobserver?.variable, !changes.contains(where: isMakeFlags) else { return changes }
        return changes + [variable]
    }

    private static func environment(_ index: Int32?, _ call: Call) throws(CallError) -> [[UInt8]] {
        guard let index else { return [] }
        guard call.isTable(at: index) else { throw option("env", "table", at: index, call) }
        var changes: [[UInt8]] = []
        try call.forEachField(of: index) { key, value throws(CallError) in
            guard call.type(at: key) == LUA_TSTRING else {
                throw .argument(1, "variables in env have names, got a \(call.typeName(at: key)) as a key")
            }
            let name = try call.argument(at: key, "a name in env")
            let shown = String(decoding: name, as: UTF8.self)
            if name.isEmpty || name.contains(UInt8(ascii: "=")) { throw .argument(1, "'\(shown)' cannot be the name of a variable in env") }
            if call.type(at: value) == LUA_TBOOLEAN, try !call.boolean(at: value) { return changes.append(name) }
            changes.append(name + [UInt8(ascii: "=")] + (try call.argument(at: value, "env.\(shown)", or: " or false")))
        }
        return changes
    }

    /// The destination of an output. Appends its path to `texts` if it is a file, and nil otherwise.
    private static func output(
        _ index: Int32?, _ name: String, or standard: cio_output_kind = CIO_CAPTURE, _ texts: inout CTexts, _ call: Call
    ) throws(CallError) -> cio_output_kind {
        guard let index else {
            texts.append(nil)
            return standard
        }
        if call.isTable(at: index) { return try file(index, name, &texts, call) }
        var kinds = ["capture": CIO_CAPTURE, "inherit": CIO_INHERIT, "null": CIO_NULL, "pipe": CIO_PIPE]
        if name == "stderr" { kinds["stdout"] = CIO_STDOUT }
        return try destination(index, name, among: kinds, &texts, call) ?? CIO_FILE
    }

    /// Reads `{ path, append = true }`. Appends the path to `texts`.
    private static func file(_ index: Int32, _ name: String, _ texts: inout CTexts, _ call: Call) throws(CallError) -> cio_output_kind {
        var path: [UInt8]?, appends = false
        try call.forEachField(of: index) { key, value throws(CallError) in
            if call.integer(at: key) == 1 {
                path = try call.argument(at: value, name)
            } else if call.string(at: key) == "append" {
                appends = try call.option("\(name).append") { () throws(CallError) in try call.boolean(at: value) }
            } else {
                let found = call.string(at: key) ?? call.typeName(at: key)
                throw .argument(1, "\(name) has a path and the field 'append', got the field '\(found)'")
            }
        }
        guard let path, !path.isEmpty else { throw .argument(1, "\(name) needs a path, as in \(name) = { \"file\", append = true }") }
        texts.append(path)
        return appends ? CIO_APPEND : CIO_FILE
    }

    /// The kind that an option names; nil for a file. Appends the file's path to `texts`, and nil otherwise.
    static func destination<Kind>(
        _ index: Int32, _ name: String, among kinds: [String: Kind], _ texts: inout CTexts, _ call: Call
    ) throws(CallError) -> Kind? {
        guard call.type(at: index) == LUA_TSTRING else { throw option(name, "string", at: index, call) }
        let path = try call.argument(at: index, name)
        let text = String(decoding: path, as: UTF8.self)
        texts.append(kinds[text] == nil ? path : nil)
        if let kind = kinds[text] { return kind }
        if let near = Spelling.nearest(to: text, among: kinds.keys.sorted(), within: 2) {
            throw .argument(1, "\(name) = '\(text)': did you mean '\(near)'? For a file of that name write './\(text)'")
        }
        if path.isEmpty {
            let names = kinds.keys.sorted().map { "'\($0)'" }.joined(separator: ", ")
            throw .argument(1, "\(name) must be \(names) or a file's path, got ''")
        }
        return nil
    }

    // MARK: functions

    private static func function(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let function = Function(number: member) else { throw .message("opscript bug: no method \(member)") }
        let process = try call.process(callingFor: function.rawValue)
        switch function {
        case .wait: return try wait(for: process.program, call)
        case .kill:
            let signal = try call.signal(at: 2)
            do throws(Failure) { return .boolean(try process.program.send(signal: signal)) } catch { throw CallError(error) }
        case .read: return .read(try stdout(of: process, for: "read", call))
        case .lines: return .lines(try stdout(of: process, for: "lines", call))
        case .write: return try write(to: process, call)
        case .closeInput:
            try stdin(of: process, for: "closeInput").close()
            return .nothing
        }
    }

    /// Waits for `process` and returns its result. Nil if the time ran out, or if the waiting operation was cancelled and has not started the
    /// process itself.
    private static func wait(for process: ChildProcess, _ call: Call) throws(CallError) -> Answer {
        // A result that shows its status; see `clua_make_unread`.
        if call.count >= 4 {
            process.markKnown()
            return .nothing
        }
        let deadline = try call.timeout(at: 2).map { ContinuousClock.Instant.after($0) }
        let state = call.state
        // `opscript.run`, which leaves no program behind.
        let isRun = call.count >= 3 ? try call.boolean(at: 3) : false
        defer { if isRun, process.isRunning { process.end(state.lastInterrupt == SIGINT ? CIO_INTERRUPT : nil) } }
        try process.wait(in: state, deadline: deadline) { !process.isRunning }
        if process.isRunning { return .nil }
        // Cancelling an operation also ends the process that it has started, which then has a result.
        let isOwn = process.belongs(to: state.currentOperation)
        let errorMessage = process.errorMessage
        // The status of a failed program is news until code reads it from the result.
        let isNews = !isRun && errorMessage == nil && process.isFailureUnknown
        if !isNews { process.markKnown() }
        // The body of a cancelled operation ends without a failure, since the operation has ended its program.
        if isOwn, isRun, state.currentOperation?.isCancelled ?? false { throw .stop(.interrupted) }
        if let errorMessage { throw .message(errorMessage) }
        return try unsafe call.push(isNews: isNews) { unsafe process.withResult($0) }
    }

    // MARK: properties

    private static func get(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let process = call.processIfAny(at: 1) else { throw call.expected("Process", at: 1) }
        switch Property(number: member) {
        case .pid: return .integer(process.program.number)
        case .isRunning: return .boolean(process.program.isRunning)
        case .stdout: return try output(0, of: process, call)
        case .stderr: return try output(1, of: process, call)
        case nil: return .nil
        }
    }

    private static func output(_ index: Int, of handle: ScriptProcess, _ call: Call) throws(CallError) -> Answer {
        if let stream = handle.stream(index + 1) { return .object(stream, .stream) }
        let process = handle.program
        guard let result = process.result, var item = unsafe process.output(index, of: result) else { return .nil }
        return try unsafe call.push { body in unsafe body(&item) }
    }

    private static func refuse(_: Int32, _: Call) throws(CallError) -> Answer { throw .message("a process has nothing to assign to") }

    private static func describe(_: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let process = call.processIfAny(at: 1) else { throw call.expected("Process", at: 1) }
        return .string("Process '\(process.program.name)' (\(process.program.summary))")
    }
}

extension Call {
    /// The bytes of a string or the digits of an integer. Throws an error for a zero byte, because C reads the bytes as a C string.
    func argument(at index: Int32, _ what: @autoclosure () -> String, or more: String = "") throws(CallError) -> [UInt8] {
        if let number = integer(at: index), unsafe lua_isinteger(lua, index) != 0 { return Array("\(number)".utf8) }
        var count = 0
        guard let start = unsafe clua_string(lua, index, &count) else {
            throw .argument(1, "\(what()) must be a string or an integer\(more), got a \(typeName(at: index))")
        }
        let bytes = unsafe Array(UnsafeRawBufferPointer(start: start, count: count))
        if bytes.contains(0) { throw .argument(1, "\(what()) contains a zero byte") }
        return bytes
    }

    /// A signal by name or number; SIGTERM if the argument is missing.
    fileprivate func signal(at index: Int32) throws(CallError) -> Int32 {
        if isMissing(at: index) { return 15 }
        if let number = integer(at: index) {
            guard (1...64).contains(number) else { throw .argument(index, "there is no signal \(number)") }
            return Int32(number)
        }
        guard let name = string(at: index) else { throw expected("name or number of a signal", at: index) }
        guard let number = Signal.number(name) else {
            throw .argument(index, "there is no signal '\(name)'\(Spelling.suggestion(for: name, among: Signal.names))")
        }
        return number
    }

    /// Pushes the value that `give` passes to its argument. The result of the process at index 1 is news if code that reads its status must be told from
    /// code that does not.
    func push(isNews: Bool = false, _ give: ((UnsafePointer<clua_item>) -> Void) -> Void) throws(CallError) -> Answer {
        do throws(Failure) {
            try unsafe state.attempt { lua, failure in
                var status = LUA_OK
                unsafe give { item in status = unsafe clua_push_items(lua, item, 1, &failure) }
                return unsafe status == LUA_OK && isNews ? clua_make_unread(lua, 1, &failure) : status
            }
        } catch { throw CallError(error) }
        return .values(1)
    }
}

/// Texts and lists of texts, as C reads them.
@safe
struct CTexts {
    private var bytes: [CChar] = []
    /// The start of each text in `bytes`. Nil stands for an absent text and for the end of a list.
    private var starts: [Int?] = []
    /// The index in `starts` of each text or list.
    private var firsts: [Int] = []

    mutating func append(_ text: [UInt8]?) {
        firsts.append(starts.count)
        add(text)
    }

    mutating func append(list: [[UInt8]]) {
        firsts.append(starts.count)
        for text in list { add(text) }
        add(nil)
    }

    private mutating func add(_ text: [UInt8]?) {
        starts.append(text == nil ? nil : bytes.count)
        guard let text else { return }
        bytes += text.map { CChar(bitPattern: $0) }
        bytes.append(0)
    }

    /// The appended items, by their numbers in the order of appending.
    @unsafe
    struct Pointers {
        fileprivate let all: UnsafeBufferPointer<UnsafePointer<CChar>?>
        fileprivate let firsts: [Int]

        func text(_ number: Int) -> UnsafePointer<CChar>? { unsafe all[firsts[number]] }

        func list(_ number: Int) -> UnsafePointer<UnsafePointer<CChar>?>? { unsafe all.baseAddress.map { unsafe $0 + firsts[number] } }
    }

    func withPointers<E: Error>(_ body: (Pointers) throws(E) -> Void) throws(E) {
        try unsafe bytes.withUnsafeBufferPointer { bytes throws(E) in
            let all = unsafe starts.map { start in unsafe start.flatMap { start in unsafe bytes.baseAddress.map { unsafe $0 + start } } }
            try unsafe all.withUnsafeBufferPointer { all throws(E) in try unsafe body(Pointers(all: all, firsts: firsts)) }
        }
    }
}
