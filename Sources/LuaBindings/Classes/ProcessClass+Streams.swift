import CIO
import CLua
import OpEngine

/// Pipes between scripts and programs.
extension ProcessClass {
    // MARK: options

    /// The standard input that the options `stdin` and `input` ask for, and the stream that it comes from if that is the output of a program.
    /// Appends the path to `texts` if it is a file, and nil otherwise.
    static func input(
        _ options: GivenOptions<Option>, _ texts: inout CTexts, _ call: Call
    ) throws(CallError) -> (kind: cio_input_kind, source: ProgramStream?) {
        guard let index = options[.stdin] else {
            texts.append(nil)
            guard let index = options[.input] else { return (CIO_INPUT_NULL, nil) }
            guard call.type(at: index) == LUA_TSTRING else { throw option("input", "string", at: index, call) }
            return (CIO_TEXT, nil)
        }
        if options[.input] != nil { throw .argument(1, "input is the text of stdin: give one of the two") }
        guard let process = call.processIfAny(at: index) else {
            let kinds = ["inherit": CIO_INPUT_INHERIT, "null": CIO_INPUT_NULL, "pipe": CIO_INPUT_PIPE]
            return (try destination(index, "stdin", among: kinds, &texts, call) ?? CIO_INPUT_FILE, nil)
        }
        guard let stream = process.stream(1) else {
            throw .argument(1, "stdin: the output of '\(process.program.name)' is no pipe: start it with stdout = 'pipe'")
        }
        if stream.hasLines { throw .argument(1, "stdin: the lines of '\(process.program.name)' go to its onLine") }
        texts.append(nil)
        return (CIO_INPUT_DESCRIPTOR, stream)
    }

    /// Makes stdout a pipe if `onLine` is to get its lines, and checks that some code can read the pipes.
    static func readPipes(_ outputs: inout [cio_output_kind], _ options: GivenOptions<Option>, _ call: Call) throws(CallError) {
        if let index = options[.onLine] {
            guard call.isFunction(at: index) else { throw option("onLine", "function", at: index, call) }
            guard options[.stdout] == nil || outputs[0] == CIO_PIPE else {
                throw .argument(1, "onLine gets the lines of stdout: leave stdout out, or set it to 'pipe'")
            }
            outputs[0] = CIO_PIPE
        } else if outputs[0] == CIO_PIPE, options[.onExit] != nil {
            throw .argument(1, "a program with onExit and stdout = 'pipe' needs onLine, or it would wait for a reader")
        }
        if outputs[1] == CIO_PIPE, let callback = [Option.onExit, .onLine].first(where: { options[$0] != nil }) {
            throw .argument(1, "\(callback.rawValue) cannot be combined with stderr = 'pipe': use stderr = 'stdout' and onLine")
        }
    }

    /// The text before each line of the outputs that are inherited; nil for none. `name` is the one for `label = true`.
    static func label(
        _ outputs: inout [cio_output_kind], _ index: Int32?, or name: String, _ call: Call
    ) throws(CallError) -> [UInt8]? {
        guard let index else { return nil }
        let text: [UInt8]
        switch call.type(at: index) {
        case LUA_TBOOLEAN:
            guard try call.boolean(at: index) else { return nil }
            text = Array(name.utf8)
        case LUA_TSTRING: text = try call.argument(at: index, "label")
        default: throw .argument(1, "label must be true or a string, got a \(call.typeName(at: index))")
        }
        guard outputs.contains(CIO_INHERIT) else { throw .argument(1, "label is for stdout = 'inherit' or stderr = 'inherit'") }
        outputs = outputs.map { $0 == CIO_INHERIT ? CIO_LABEL : $0 }
        return text.filter { $0 != UInt8(ascii: "\n") && $0 != 0 }
    }

    // MARK: functions

    /// The stream of stdout, for a method that reads it.
    static func stdout(of process: ScriptProcess, for method: String, _ call: Call) throws(CallError) -> ProgramStream {
        guard let stream = process.stream(1) else {
            throw .message("\(method): start '\(process.program.name)' with stdout = 'pipe' to read its output while it runs")
        }
        try stream.beginReading(for: method, by: call.state.currentOperation)
        return stream
    }

    static func stdin(of process: ScriptProcess, for method: String) throws(CallError) -> ProgramStream {
        guard let stream = process.stream(0) else {
            throw .message("\(method): start '\(process.program.name)' with stdin = 'pipe' to write to it")
        }
        return stream
    }

    /// `process:write(…)`: writes strings and integers, and returns the process.
    static func write(to process: ScriptProcess, _ call: Call) throws(CallError) -> Answer {
        let stream = try stdin(of: process, for: "write")
        for index in 2..<max(2, call.count + 1) {
            switch call.type(at: index) {
            case LUA_TSTRING:
                var count = 0
                let bytes = unsafe clua_string(call.lua, index, &count)
                // The string stays on the stack of the call, and Lua moves no strings.
                try unsafe stream.write(UnsafeBufferPointer(start: bytes, count: count), in: call.state)
            case LUA_TNUMBER where unsafe lua_isinteger(call.lua, index) != 0:
                try unsafe Array("\(call.integer(at: index) ?? 0)".utf8CString.dropLast()).withUnsafeBufferPointer {
                    bytes throws(CallError) in
                    try unsafe stream.write(bytes, in: call.state)
                }
            default: throw call.expected("string or integer", at: index)
            }
        }
        return .argument(1)
    }
}

extension Call {
    /// Makes the function at `index` the callback in the handle of a stream. This state keeps the handle until the stream has ended.
    func callBack(_ stream: ProgramStream, at index: Int32) throws(Failure) {
        try unsafe state.attempt { lua, failure in
            unsafe clua_set_callback(lua, clua_reference(unowned: stream, .stream), index, &failure)
        }
        try state.expect(stream, .stream)
        stream.beginLines()
    }
}
