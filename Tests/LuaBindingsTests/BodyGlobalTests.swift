import LuaBindings
import TestSupport
import Testing

/// The globals of one operation are not there in the next.
@Suite struct BodyGlobalTests {
    @Test(arguments: [
        "leak = 1", "_G.leak = 1", "rawset(_G, 'leak', 1)", "load('leak = 1')()", "load('_G.leak = 1')()", "load('_ENV.leak = 1')()",
        "setmetatable(_G, { __index = function() return 1 end })", "setmetatable(_G, nil)", "getmetatable(_G).__index = { leak = 1 }",
        "local f = assert(io.open(os.tmpname(), 'w')); f:close(); leak = 1", "debug.getregistry()[2].leak = 1",
        "coroutine.wrap(function() leak = 1 end)()", "pcall(function() leak = 1 error 'x' end)", "_ENV = { leak = 1 }; leak = 2",
        "string.gsub('x', 'x', function() leak = 1 end)", "leak = 1 error 'x'",
    ])
    func nothingIsLeftFor(_ source: String) throws {
        try withRuntime(workers: 1) { runtime throws in
            try runtime.run(
                """
                local first = queue:addOperation(load(...))
                first:waitUntilFinished()
                _ = first.error
                """, arguments: [.string(source)])
            let second = try runtime.operation(
                "return queue:addOperation(function() return leak, _G.leak, rawget(_G, 'leak'), load('return leak')(), type(print) end)")
            #expect(try runtime.results(of: second) == [.nil, .nil, .nil, .nil, "function"])
        }
    }

    @Test func loadAndDofileSeeTheOperationsGlobals() throws {
        try script(
            """
            helper = function() return 'came along' end
            local o = queue:addOperation(function()
                local _ = helper
                own = 'own'
                local path = os.tmpname()
                local f = io.open(path, 'w')
                f:write 'made_by_file = 1 return own, helper()' f:close()
                local a, b = dofile(path)
                local c, d = loadfile(path)()
                os.remove(path)
                return a, b, c, d, load('return own')(), made_by_file, _G == _ENV
            end)
            o:waitUntilFinished()
            local r = o.results
            assert(r[1] == 'own' and r[2] == 'came along' and r[3] == 'own' and r[4] == 'came along' and r[5] == 'own', o.error)
            assert(r[6] == 1 and r[7] == true and made_by_file == nil)
            """)
    }

    @Test func theMainStatesGlobalsAreItsOwn() throws {
        try script(
            """
            counter = 1
            local o = queue:addOperation(function() counter = counter + 1; fresh = true; return counter end)
            o:waitUntilFinished()
            assert(o.result == 2 and counter == 1 and fresh == nil)
            """)
    }

    @Test func aWaitInABodyKeepsItsGlobals() throws {
        try script(
            """
            local o = OperationQueue.main:addOperation(function() return 1 end)
            local outer = Operation.new(function() mine = 5; local made = load 'mine = mine + 1'; made(); return mine end)
            outer:start()
            assert(outer.result == 6 and mine == 6)
            mine = nil
            o:waitUntilFinished()
            """)
    }

    @Test func requireInABodyLoadsAgainstRealGlobalsAndStays() throws {
        let modules = try ModuleDirectory([
            "counter": "loads = (loads or 0) + 1; local C = { loads = loads } function C.seen() return loads, x end return C"
        ])
        try withRuntime(workers: 1) { runtime throws in
            try runtime.run(modules.prelude)
            for _ in 1...2 {
                let operation = try runtime.operation(
                    "return queue:addOperation(function() x = 'own'; local c = require 'counter'; return c.loads, c.seen() end)")
                #expect(try runtime.results(of: operation) == [1, 1, .nil])
            }
        }
    }
}
