import CTestSupport
import OpEngine
import Testing

@testable import LuaBindings

@Suite struct LuaErrorTests {
    private func error(_ source: String, in runtime: Runtime) throws -> LuaError {
        try #require(#expect(throws: LuaError.self) { try runtime.run(source) })
    }

    @Test func eachKindIsTold() throws {
        try withRuntime { runtime throws in
            #expect(try error("for", in: runtime).kind == .syntax(isIncomplete: true))
            #expect(try error("for for", in: runtime).kind == .syntax(isIncomplete: false))
            #expect(try error("error 'x'", in: runtime).kind == .runtime)
            #expect(try error("return load 'for'() or error()", in: runtime).kind == .runtime)
            let refused = #expect(throws: LuaError.self) {
                try runtime.function("local file = io.tmpfile(); return function() return file end")
            }
            #expect(refused?.kind == .notSendable && refused?.message.contains("cannot send upvalue 'file'") == true)
            let unfit = #expect(throws: LuaError.self) { try runtime.evaluate("'x'", as: Int.self) }
            #expect(unfit?.kind == .conversion(path: ""))
        }
    }

    @Test func lackOfMemoryIsOne() throws {
        var configuration = Runtime.Configuration()
        configuration.stateMemoryLimit = 2_000_000
        let runtime = try Runtime(configuration)
        defer { runtime.close() }
        #expect(try error("return ('x'):rep(10000000)", in: runtime).kind == .memory)
        #expect(try runtime.evaluate("1") == 1)
    }

    @Test func theRaisedValueIsThere() throws {
        try withRuntime { runtime throws in
            let table = try error("error { code = 7, words = { 'a' } }", in: runtime)
            #expect(table.value == ["code": 7, "words": ["a"]] && table.message == "(error object is a table value)")
            #expect(table.traceback.hasPrefix("stack traceback:"))
            #expect(try error("error(nil)", in: runtime).value == .nil)
            #expect(try error("error('x', 0)", in: runtime).value == "x")
            let queue = try #require(try error("error(queue)", in: runtime).value.queue)
            #expect(queue.name == "test")
        }
    }

    @Test func whatAHostFunctionHasThrownIsUnderneath() throws {
        struct Refusal: Error, Equatable { let code: Int }
        try withRuntime { runtime throws in
            try runtime.register("refuse") { (code: Int) -> Int in throw Refusal(code: code) }
            let failed = try error("local function f() return refuse(7) + 1 end f()", in: runtime)
            #expect(failed.underlyingError as? Refusal == Refusal(code: 7))
            #expect(failed.message == "script:1: Refusal(code: 7)" && failed.traceback.contains("in local 'f'"))
            // A script that handles it, and fails otherwise later, fails by itself.
            let other = try error("pcall(refuse, 1) error 'another'", in: runtime)
            #expect(other.underlyingError == nil)
            let operation = try runtime.operation("return queue:addOperation(function() refuse(8) end)")
            let failure = #expect(throws: OperationFailure.self) { try runtime.results(of: operation) }
            #expect(failure?.underlyingError as? Refusal == Refusal(code: 8))
        }
    }

    @Test func aScriptInsideAScriptGivesBothTracebacks() throws {
        try withRuntime { runtime throws in
            try runtime.register("nested") { () in
                _ = try runtime.run("local function deep() error 'deep down' end deep()", name: "=inner")
            }
            let failed = try error("local function outside() nested() end outside()", in: runtime)
            #expect(failed.message == "script:1: inner:1: deep down")
            #expect(failed.report.contains("in upvalue 'outside'") || failed.report.contains("in local 'outside'"))
            #expect(failed.report.contains("caused by: inner:1: deep down\nstack traceback:") && failed.report.contains("in local 'deep'"))
        }
    }

    @Test func aCallAfterTheEndIsOne() throws {
        let runtime = try Runtime()
        runtime.close()
        let error = #expect(throws: LuaError.self) { try runtime.evaluate("1", as: Int.self) }
        #expect(error?.kind == .runtime && error?.message == "the runtime is closed")
    }
}
