import LuaBindings
import Testing

@Suite struct RunTests {
    @Test func aScriptGetsArgumentsAndReturnsResults() throws {
        try withRuntime { runtime throws in
            #expect(try runtime.run("return select('#', ...), ...", arguments: [1, "two", .nil]) == [3, 1, "two", .nil])
            #expect(try runtime.run("") == [])
        }
    }

    @Test func anErrorHasMessageAndTraceback() throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) {
                try runtime.run("local function inner() error 'no' end\ninner()", name: "@main.lua")
            }
            #expect(error?.message == "main.lua:1: no" && error?.isIncomplete == false)
            #expect(
                error?.traceback.hasPrefix(
                    "stack traceback:\n\t[C]: in function 'error'\n\tmain.lua:1: in local 'inner'\n\tmain.lua:2: in main chunk") == true)
        }
    }

    @Test func aSyntaxErrorSaysWhetherMoreInputMightHelp() throws {
        try withRuntime { runtime throws in
            let incomplete = #expect(throws: LuaError.self) { try runtime.run("for i = 1, 2 do") }
            #expect(incomplete?.isIncomplete == true && incomplete?.traceback == "")
            let wrong = #expect(throws: LuaError.self) { try runtime.run("for for") }
            #expect(wrong?.isIncomplete == false)
        }
    }

    /// Errors and yields that leave C functions early may happen any number of times, also under ThreadSanitizer.
    @Test(arguments: [
        "for i = 1, 100000 do pcall(opscript.Operation.new, i) end",
        "local f = coroutine.wrap(function() while true do pcall(coroutine.yield) end end) for i = 1, 100000 do f() end",
    ])
    func errorsAndYieldsLeaveNothingBehind(_ source: String) throws {
        try withRuntime { runtime throws in _ = try runtime.run(source) }
    }

    @Test(arguments: [
        ("error({ code = 7 })", "(error object is a table value)"),
        ("error(setmetatable({}, { __tostring = function() return 'mine' end }))", "mine"),
        ("error(42)", "42"),
        ("error()", "(error object is a nil value)"),
        ("error('plain', 0)", "plain"),
    ])
    func everyRaisedValueHasAMessage(_ source: String, _ message: String) throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run(source) }
            #expect(error?.message == message)
        }
    }

    @Test func anErrorWhileTheErrorIsDescribedIsAnErrorStill() throws {
        try withRuntime { runtime throws in
            #expect(throws: LuaError.self) {
                try runtime.run("error(setmetatable({}, { __tostring = function() error 'again' end }))")
            }
            #expect(try runtime.run("return 1") == [1])
        }
    }

    @Test func stackOverflowsAreErrors() throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run("local function f() return 1 + f() end return f()") }
            #expect(error?.message.contains("stack overflow") == true)
            #expect(try runtime.run("return 1") == [1])
        }
    }

    @Test func globalsCanBeReadAndAssigned() throws {
        try withRuntime { runtime throws in
            try runtime.setGlobal("answer", to: .table(["value": 42]))
            #expect(try runtime.run("return answer.value") == [42])
            #expect(try runtime.global("answer") == .table(["value": 42]))
            #expect(try runtime.global("missing") == .nil)
        }
    }

    @Test func aClosedRuntimeSaysSo() throws {
        let runtime = try Runtime()
        runtime.close()
        runtime.close()
        let error = #expect(throws: LuaError.self) { try runtime.run("return 1") }
        #expect(error?.message == "the runtime is closed")
    }

    @Test func whatABodyThatHitItsLimitLeavesBehindIsNotAddedToTheNextLimit() throws {
        try withRuntime(workers: 1) { runtime in
            let values = try runtime.run(
                """
                for _ = 1, 30 do
                  local greedy = Operation.new { main = function() local t = {} while true do t[#t + 1] = {} end end, memoryLimit = 1 << 20 }
                  queue:addOperation(greedy)
                  greedy:waitUntilFinished()
                  assert(greedy.error.kind == 'memory')
                end
                local last = queue:addOperation(function() return collectgarbage 'count' end)
                last:waitUntilFinished()
                return last.result
                """)
            guard case .number(let kilobytes)? = values.first else { Issue.record("no count"); return }
            #expect(kilobytes < 3000)
        }
    }
}
