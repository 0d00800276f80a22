import CLua
import Glibc
import TestSupport
import Testing

/// Parcels on their way between machines.
@Suite struct WireTests {
    @Test func aFunctionHasTheSameBytesWhereverItIsDumped() throws {
        let home = State(), away = State(), third = State()
        let sent = try home.encode(
            "local n, f = 1 ; function f(a) local m = a ; return function() n = n + m ; return function() return m end end end return f")
        let functions = try #require(sent.functions)
        #expect(functions.count == 3)
        try away.decode(sent, in: CLUA_CURRENT_ENVIRONMENT)
        try away.run("f = ...", arguments: 1)
        let outer = try away.encode("return f"), middle = try away.encode("return f(1)"), inner = try away.encode("return f(1)()")
        #expect([inner, middle, outer].map { $0.functions?.last } == functions)
        // Once more, since a function that has arrived is dumped from another function than the first time.
        try third.decode(middle, in: CLUA_CURRENT_ENVIRONMENT)
        try third.run("f = ...", arguments: 1)
        #expect(try third.encode("return f").functions?.last == functions[1])
        #expect(try third.encode("return f()").functions?.last == functions[0])
        #expect(try third.encode("return function() return 1 end").functions?.last != functions[0])
    }

    @Test func aCompiledModuleHasTheFunctionsThatItMakes() throws {
        let text = "local M = {} ; function M.make(n) return function() return n end end ; return M"
        let code = try unsafe #require(clua_wire_compile(text, text.utf8.count, "@module"))
        defer { unsafe clua_wire_release_code(code) }
        let functions = try #require(unsafe Parcel.functions(of: code))
        let made = try State().encode("return (function(...) \(text) end)().make(1)")
        let function = try #require(made.functions?.last)
        #expect(functions.contains(function))
        #expect(unsafe clua_wire_compile("return (", 8, "@module") == nil)
    }

    @Test(arguments: [true, false]) func theFinalizersOfAWorkersValuesDoNotRun(_ isFromWorker: Bool) throws {
        // The encoder refuses finalizers, but a hostile worker has another one.
        let sent = try State().encode("return setmetatable({}, { __gx = function() ran = true end })")
        let change = { (bytes: inout [UInt8]) in
            for index in bytes.indices where bytes[index...].starts(with: "__gx".utf8) { bytes[index + 3] = UInt8(ascii: "c") }
        }
        let received = try #require(sent.received(isFromWorker: isFromWorker, changing: change))
        let state = State()
        try state.decode(received, in: CLUA_CURRENT_ENVIRONMENT)
        state.count = 0
        #expect(try state.text("collectgarbage() return tostring(ran)") == (isFromWorker ? "nil" : "true"))
    }

    @Test(arguments: [true, false]) func aWorkersValuesAreNotRebuilt(_ isFromWorker: Bool) throws {
        let sent = try State().encode("return setmetatable({}, { __transfer = function() return function() ran = true return 1 end end })")
        let received = try #require(sent.received(isFromWorker: isFromWorker))
        let state = State()
        if isFromWorker {
            let error = #expect(throws: ScriptError.self) { try state.decode(received, in: CLUA_CURRENT_ENVIRONMENT) }
            #expect(error?.message.contains("a metamethod would run in the host") ?? false)
        } else {
            try state.decode(received, in: CLUA_CURRENT_ENVIRONMENT)
        }
        state.count = 0
        #expect(try state.text("return tostring(ran)") == (isFromWorker ? "nil" : "true"))
    }

    @Test func refusedCodeMakesNoParcel() throws {
        let sent = try State().encode("return 1, function() end")
        #expect(sent.received(isFromWorker: true, admits: false) == nil)
        #expect(try State().encode("return 1, {}").received(isFromWorker: true, admits: false) != nil)
    }
}

extension Parcel {
    /// The functions of the first code. Each is an array of its bytes; the outermost one is the last.
    fileprivate var functions: [[UInt8]]? { unsafe clua_parcel_code(pointer, 0).flatMap { unsafe Parcel.functions(of: $0) } }

    fileprivate static func functions(of code: OpaquePointer) -> [[UInt8]]? {
        var functions: [[UInt8]] = []
        let isComplete = unsafe withUnsafeMutablePointer(to: &functions) { list in
            unsafe clua_wire_functions(code, list) { list, first, firstCount, second, secondCount in
                let bytes =
                    unsafe Array(UnsafeBufferPointer(start: first, count: firstCount))
                    + Array(UnsafeBufferPointer(start: second, count: secondCount))
                unsafe list?.assumingMemoryBound(to: [[UInt8]].self).pointee.append(bytes)
            }
        }
        return isComplete ? functions : nil
    }

    /// The parcel as another machine receives it: a coordinator if it is from a worker. Nil if the reader refuses it.
    fileprivate func received(
        isFromWorker: Bool, admits: Bool = true, changing change: (inout [UInt8]) -> Void = { _ in }
    ) -> Parcel? {
        var bytes: UnsafeMutablePointer<UInt8>?, count = 0
        guard unsafe clua_wire_write(pointer, nil, &bytes, &count) else { return nil }
        defer { unsafe free(bytes) }
        var contents = unsafe Array(UnsafeBufferPointer(start: bytes, count: count))
        change(&contents)
        var admits = admits
        let parcel = Parcel()
        let isRead = unsafe withUnsafeMutablePointer(to: &admits) { admits in
            var visitor = unsafe clua_code_visitor(context: admits) { admits, _ in
                unsafe admits?.assumingMemoryBound(to: Bool.self).pointee ?? false
            }
            return unsafe withUnsafePointer(to: &visitor) { visitor in
                unsafe clua_wire_read(
                    contents, contents.count, nil, 0, nil, 0, nil, 0, isFromWorker ? visitor : nil, parcel.pointer)
            }
        }
        return isRead ? parcel : nil
    }
}
