import LuaBindings
import OpEngine
import Testing

/// `InvocationOperation`: an operation that calls a method of an object.
@Suite struct InvocationOperationTests {
    @Test func itCallsTheMethodOfACopy() throws {
        try script(
            """
            local counter = setmetatable({ n = 1 }, { __index = { add = function(self, x, y) self.n = self.n + x return self.n, y end } })
            local o = opscript.InvocationOperation.new(counter, 'add', 41, 'more')
            queue:addOperation(o)
            o:waitUntilFinished()
            assert(o.result == 42 and o.results.n == 2 and o.results[2] == 'more' and counter.n == 1, o.error)
            local text = opscript.InvocationOperation.new('abc', 'rep', 2)
            queue:addOperation(text)
            text:waitUntilFinished()
            assert(text.result == 'abcabc')
            """)
    }

    @Test func whereItWasMadeItCallsTheObjectItself() throws {
        try script(
            """
            local counter = { n = 0, add = function(self, x) self.n = self.n + x return self.n end }
            opscript.InvocationOperation.new(counter, 'add', 1):start()
            assert(counter.n == 1)
            local o = opscript.InvocationOperation.new(counter, 'add', 1)
            OperationQueue.main:addOperation(o)
            o:waitUntilFinished()
            assert(o.result == 2 and counter.n == 2)
            """)
    }

    @Test func objectsOfTheModuleGoByReference() throws {
        try script(
            """
            local other = Operation.new(function() end)
            local o = opscript.InvocationOperation.new(other, 'cancel')
            queue:addOperation(o)
            o:waitUntilFinished()
            assert(other.isCancelled)
            """)
    }

    @Test func aResultThatWillNeverBeIsAnError() throws {
        try withRuntime { runtime throws in
            try runtime.run("object = { void = function() end, fails = function() error 'wrong' end, value = function() return false end }")
            for (source, message) in [
                ("local o = opscript.InvocationOperation.new(object, 'void') o:start() return o.result", "its method returned nothing"),
                ("local o = opscript.InvocationOperation.new(object, 'void') o:cancel() return o.result", "it was cancelled"),
                (
                    "local o = opscript.InvocationOperation.new(object, 'value') o:cancel() queue:addOperation(o) o:waitUntilFinished() return o.result",
                    "it was cancelled"
                ),
            ] {
                let error = #expect(throws: LuaError.self) { try runtime.run(source) }
                #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
            }
            #expect(try runtime.run("local o = opscript.InvocationOperation.new(object, 'void') return o.result") == [.nil])
            #expect(
                try runtime.run("local o = opscript.InvocationOperation.new(object, 'void') o:start() return o.results.n") == [0])
            #expect(try runtime.run("local o = opscript.InvocationOperation.new(object, 'value') o:start() return o.result") == [false])
            let failed = try runtime.run(
                "local o = opscript.InvocationOperation.new(object, 'fails') o:start() return o.result, o.error.message")
            #expect(failed == [.nil, "script:1: wrong"])
        }
    }

    @Test(arguments: [
        ("opscript.InvocationOperation.new({}, 'missing')", "the table has no method 'missing'"),
        ("opscript.InvocationOperation.new({ missing = 1 }, 'missing')", "the table has no method 'missing'"),
        ("opscript.InvocationOperation.new(5, 'missing')", "attempt to index a number value"),
        ("opscript.InvocationOperation.new(nil, 'm')", "object expected, got nil"),
        ("opscript.InvocationOperation.new()", "object expected, got no value"),
        ("opscript.InvocationOperation.new({})", "string expected, got no value"),
        ("opscript.InvocationOperation.new({}, {})", "string expected, got table"),
        ("opscript.InvocationOperation.new(setmetatable({}, { __index = function() error 'hostile' end }), 'm')", "hostile"),
        ("queue:addOperation(opscript.InvocationOperation.new({ m = print, f = coroutine.create(print) }, 'm'))", "argument 1.f"),
    ])
    func misuseIsAnError(_ source: String, _ message: String) throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run(source) }
            #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
        }
    }
}
