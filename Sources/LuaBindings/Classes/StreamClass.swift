import CLua

/// Our end of a pipe to a program, as scripts see it: `process.stdout` and `process.stderr` of a program with pipes.
enum StreamClass {
    enum Function: String, Member {
        case read, lines, close
    }

    static var description: clua_class {
        let functions = unsafe Function.table
        let none = unsafe NoMember.table
        return unsafe clua_class(
            name: StaticName.stream, kind: ObjectKind.stream.rawValue, base: nil, functions: functions.start,
            function_count: functions.count,
            properties: none.start, property_count: 0, class_properties: none.start, class_property_count: 0,
            call: { unsafe LuaState.answer($0, $1, $2, StreamClass.function) },
            get: { _, _, _ in },
            set: { unsafe LuaState.answer($0, $1, $2, StreamClass.refuse) },
            class_get: { _, _, _ in }, describe: { unsafe LuaState.answer($0, $1, $2, StreamClass.describe) })
    }

    private static func function(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let function = Function(number: member) else { throw .message("opscript bug: no method \(member)") }
        let stream = try call.stream(callingFor: function.rawValue)
        if function == .close {
            stream.close()
            return .nothing
        }
        try stream.beginReading(for: function.rawValue, by: call.state.currentOperation)
        return function == .read ? .read(stream) : .lines(stream)
    }

    /// Waits after a read that has found too few bytes, or throws its error; `outcome` is a `cio_take`. The program or the stream is at stack
    /// index 1.
    static func resume(_ outcome: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let stream = call.streamIfAny(at: 1) ?? call.processIfAny(at: 1)?.stream(1) else {
            throw .message("opscript bug: a read without a stream")
        }
        try stream.resume(after: outcome, in: call.state)
        return .nothing
    }

    private static func refuse(_: Int32, _: Call) throws(CallError) -> Answer { throw .message("a stream has nothing to assign to") }

    private static func describe(_: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let stream = call.streamIfAny(at: 1) else { throw call.expected("Stream", at: 1) }
        return .string("Stream (\(stream.name)\(stream.isClosed ? ", closed" : ""))")
    }
}
