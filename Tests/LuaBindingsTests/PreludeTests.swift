import LuaBindings
import OpEngine
import Testing

/// Preludes prepare the states of workers.
@Suite struct PreludeTests {
    @Test func everyWorkersStateRunsItOnce() throws {
        try script(
            workers: 4,
            """
            opscript.prelude(function() runs = (runs or 0) + 1 end)
            local list = {}
            for i = 1, 200 do
                list[i] = queue:addOperation(function() if i % 10 == 0 then opscript.sleep(0.001) end return runs end)
            end
            opscript.sleep(0)
            for _, o in ipairs(list) do
                o:waitUntilFinished()
                assert(o.result == 1, o.result)
            end
            assert(runs == nil)
            """)
    }

    @Test func theMainStateDoesNotRunIt() throws {
        try script(
            """
            opscript.prelude(function() marked = true end)
            local o = Operation.new(function() return marked end)
            OperationQueue.main:addOperation(o)
            o:waitUntilFinished()
            local byHand = Operation.new(function() return marked end)
            byHand:start()
            assert(o.result == nil and byHand.result == nil)
            """)
    }

    @Test func oneThatDoesNotEndIsStoppedWithTheOperation() throws {
        try script(
            workers: 1,
            """
            opscript.prelude(function() while not calm do calm = true; while true do end end end)
            local o = Operation.new(function() return 'ran' end)
            o.timeout = 0.05
            queue:addOperation(o)
            o:waitUntilFinished()
            assert(o.error.kind == 'timeout' and o.error.message:find('the prelude <', 1, true), o.error.message)
            o = queue:addOperation(function() return 'ran' end)
            o:waitUntilFinished()
            assert(o.result == 'ran', o.error)
            """)
    }

    @Test func onePreludeMayRunOperations() throws {
        try script(
            workers: 1,
            """
            opscript.prelude(function()
                local inner = opscript.Operation.new(function() return 'inner' end)
                inner:start()
                made = inner.result
                current = opscript.Operation.current
            end)
            local o = queue:addOperation(function() return made, current end)
            o:waitUntilFinished()
            assert(o.result == 'inner' and o.results[2] == nil, o.error)
            """)
    }

    @Test func whatAModuleSetsStillTravels() throws {
        try script(
            workers: 1,
            """
            opscript.prelude(function() fromPrelude = 1 end)
            local o = queue:addOperation(function()
                _G.package.loaded['set-globals'] = nil
                package.preload['set-globals'] = load 'fromModule = 2'
                require 'set-globals'
                return function() return fromPrelude, fromModule end
            end)
            o:waitUntilFinished()
            local prelude, module = o.result()
            assert(prelude == nil and module == 2, tostring(o.error))
            """)
    }
}
