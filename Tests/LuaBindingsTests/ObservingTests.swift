import CTestSupport
import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Observers run in the state that set them, see every change, and keep nothing alive.
@Suite struct ObservingTests {
    @Test("A queue that was given no name has no name in scripts")
    func unnamedQueues() throws {
        try script(
            """
            local unnamed, log = OperationQueue.new(), {}
            local token = unnamed:observe('name', { 'old', 'new' }, function(_, change)
              log[#log + 1] = tostring(change.old) .. ' ' .. tostring(change.new)
            end)
            unnamed.name = 'a'
            unnamed.name = nil
            assert(unnamed.name == nil and tostring(unnamed) == 'OperationQueue (0 operations)', tostring(unnamed))
            unnamed:addOperation(function() end):waitUntilFinished()
            while #log < 2 do opscript.sleep(0.001) end
            assert(log[1] == 'nil a' and log[2] == 'a nil', table.concat(log, ', '))
            """)
    }

    @Test func aWaitReturnsAfterTheObserversHaveBeenTold() throws {
        try script(
            """
            for i = 1, 200 do
                local told = {}
                local o = Operation.new(function(op) for k = 1, 5 do op.step = k end end)
                o:observe('step', { 'new' }, function(_, change) told[#told + 1] = change.new end)
                for _, keyPath in ipairs { 'isExecuting', 'isFinished' } do
                    o:observe(keyPath, function(_, change) told[#told + 1] = change.keyPath end)
                end
                queue:addOperation(o)
                if i % 2 == 0 then o:waitUntilFinished() else queue:waitUntilAllOperationsAreFinished() end
                local text = table.concat(told, ' ')
                assert(text == 'isExecuting 1 2 3 4 5 isExecuting isFinished', text)
            end
            """)
    }

    @Test func aWaitForAQueueReturnsAfterItsObserversHaveBeenTold() throws {
        try script(
            """
            for i = 1, 100 do
                local q, counts = OperationQueue.new(), {}
                q:observe('operationCount', { 'new' }, function(_, change) counts[#counts + 1] = change.new end)
                local o = q:addOperation(function() end)
                if i % 2 == 0 then o:waitUntilFinished() end
                q:waitUntilAllOperationsAreFinished()
                assert(table.concat(counts, ' ') == '1 0', table.concat(counts, ' '))
            end
            """)
    }

    @Test func anObserverInAWorkersStateHearsOfAnOperationThatWasSent() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                -- The worker makes and observes it, and sends it back; the main state adds it.
                made = queue:addOperation(function()
                    local o = opscript.Operation.new { name = 'sent', main = function(op) op.step = 1 return 'ran' end }
                    local told = {}
                    o:observe('step', { 'new' }, function(_, change) told[#told + 1] = change.new end)
                    o:observe('isFinished', function(self)
                        told[#told + 1] = self.result
                        self.told = table.concat(told, ' ')
                    end)
                    return o
                end)
                made:waitUntilFinished()
                local o = made.result
                collectgarbage() collectgarbage()
                local done = false
                o:observe('told', { 'new' }, function(_, change) done = change.new end)
                queue:addOperation(function() collectgarbage() collectgarbage() end):waitUntilFinished()
                queue:addOperation(o)
                o:waitUntilFinished()
                while not done do queue:addOperation(function() end):waitUntilFinished() end
                assert(done == '1 ran', done)
                """)
            #expect(try runtime.finish().stuckOperations.isEmpty)
        }
    }

    @Test func changesMadeByOtherStatesArriveInOrder() throws {
        try script(
            """
            local o = Operation.new(function() end)
            local last, count = {}, 0
            o:observe('value', { 'new' }, function(_, change)
                local from, number = change.new[1], change.new[2]
                assert(number == (last[from] or 0) + 1)
                last[from], count = number, count + 1
            end)
            for from = 1, 4 do queue:addOperation(function() for i = 1, 100 do o.value = { from, i } end end) end
            queue:waitUntilAllOperationsAreFinished()
            opscript.sleep(0)
            assert(count == 400, count)
            """)
    }

    @Test func oldAndNewValuesOfOneNameAreAChain() throws {
        try script(
            """
            local o = Operation.new(function() end)
            local before, count
            o:observe('value', { 'old', 'new', 'initial' }, function(_, change)
                if count then assert(change.old == before, tostring(change.old)) end
                before, count = change.new, (count or 0) + 1
            end)
            for from = 1, 4 do queue:addOperation(function() for i = 1, 100 do o.value = from * 1000 + i end end) end
            queue:waitUntilAllOperationsAreFinished()
            opscript.sleep(0)
            assert(count == 401 and before == o.value, count)
            """)
    }

    @Test func anInvalidatedObservationIsNotCalledAnyMore() throws {
        try script(
            """
            local o = Operation.new(function() end)
            local count = 0
            local token = o:observe('isFinished', function() count = count + 1 end)
            queue:addOperation(o)
            -- Another state may end it, too.
            local other = Operation.new(function() end)
            local second = other:observe('isFinished', function() count = count + 1 end)
            other.isReady = false
            queue:addOperation(other)
            token:invalidate()
            queue:addOperation(function() second:invalidate() end):waitUntilFinished()
            other.isReady = true
            queue:waitUntilAllOperationsAreFinished()
            opscript.sleep(0)
            assert(count == 0, count)
            """)
    }

    @Test func anObserverThatIsWaitedForIsNotPartOfTheOperationThatWaits() throws {
        try script(
            """
            local o = queue:addOperation(function()
                local inner = opscript.Operation.new(function() end)
                local current = {}
                inner:observe('isFinished', function() current[1] = opscript.Operation.current or 'none' end)
                opscript.OperationQueue.new():addOperation(inner)
                inner:waitUntilFinished()
                assert(opscript.Operation.current)
                return current[1]
            end)
            o:waitUntilFinished()
            assert(o.result == 'none')
            """)
    }

    @Test func whatTheHostMadeCanBeObserved() throws {
        try withRuntime { runtime throws in
            let operation = BlockOperation {}
            operation.name = "host's"
            try runtime.setGlobal("host", to: .operation(operation))
            try runtime.run(
                """
                told = {}
                host:observe('isFinished', { 'new' }, function(op, change) told[#told + 1] = op.name .. ' ' .. tostring(change.new) end)
                host = nil
                collectgarbage() collectgarbage()
                """)
            operation.start()
            try runtime.drain()
            #expect(try runtime.run("return table.unpack(told)") == ["host's true"])
        }
    }

    /// Observed operations that only their observer refers to.
    @Test(arguments: [
        "local o = Operation.new(function() end); o:observe('isFinished', function() return o end); return o",
        "local o = Operation.new(function() end); local t; t = o:observe('x', function() return t, o end); return o",
        "local o = Operation.new(function() end); local t = o:observe('x', function() return o end); o.token = t; t:invalidate(); return o",
    ])
    func operationsThatWereNeverAddedGo(_ source: String) throws {
        try withRuntime { runtime throws in
            weak var weakly: Operation?
            try { weakly = try runtime.operation(source) }()
            try runtime.drain()
            try runtime.run("collectgarbage() collectgarbage()")
            try runtime.drain()
            #expect(weakly == nil)
        }
    }

    @Test(arguments: [
        "local o = Operation.new(function() end); o:observe('isFinished', function() return o end); queue:addOperation(o); return o",
        "local o = Operation.new(function() end); queue:addOperation(o); o:observe('isFinished', function() return o end); return o",
        "local o = Operation.new(function() end); o:observe('x', function() return o end); o:start(); return o",
        "local o = Operation.new(function() end); o:observe('x', { 'new' }, function() return o end); o.x = o; o:start(); return o",
        "local o = Operation.new(function() end); o:observe('x', function() return o end); queue:addOperation(function() OperationQueue.new():addOperation(o) end); return o",
        "local o = Operation.new(function(op) op:observe('x', function() return op end); op.x = op end); queue:addOperation(o); return o",
    ])
    func operationsThatHaveRunGo(_ source: String) throws {
        weak var weakly: Operation?
        try withRuntime(workers: 1) { runtime throws in
            try { weakly = try runtime.operation(source) }()
            _ = try runtime.finish()
            try runtime.run("queue:addOperation(function() collectgarbage() collectgarbage() end)")
            _ = try runtime.finish()
            try runtime.run("collectgarbage() collectgarbage()")
            try runtime.drain()
        }
        #expect(weakly == nil)
    }

    @Test func aQueueIsObservedWhileItHasOperationsAndThenGoes() throws {
        try script(
            """
            local gone = setmetatable({}, { __mode = 'k' })
            local counts = {}
            do
                local q = OperationQueue.new()
                local key = {}
                gone[key] = true
                q:observe('operationCount', { 'new' }, function(queue, change) counts[#counts + 1] = change.new; assert(queue and key) end)
                q:addOperation(function() end)
            end
            collectgarbage() collectgarbage()
            while counts[#counts] ~= 0 do queue:addOperation(function() end):waitUntilFinished() end
            while next(gone) do queue:addOperation(function() end):waitUntilFinished(); collectgarbage() end
            assert(table.concat(counts, ' ') == '1 0')
            """)
    }

    @Test func observingDoesNotKeepTheRunAlive() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                waiting = Operation.new(function() end)
                waiting:observe('isFinished', function() error 'never' end)
                queue:observe('operationCount', function() error 'never' end)
                """)
            let ending = try runtime.finish()
            #expect(ending.stuckOperations.isEmpty && ending.callbackErrorCount == 0)
        }
    }

    @Test func anErrorInAnObserverSaysWhereWithoutWhatWaits() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                local o = Operation.new(function() end)
                o:observe('isFinished', function() error 'in an observer, as expected' end)
                local after = false
                o:observe('isFinished', function() after = true end)
                queue:addOperation(o)
                o:waitUntilFinished()
                assert(after)
                """)
            #expect(try runtime.finish().callbackErrorCount == 1)
        }
    }

    @Test func observedOperationsAreGivenBack() async {
        await #expect(processExitsWith: .success) {
            try withRuntime { runtime throws in
                func observe(_ count: Int) throws -> (Int, Int) {
                    try runtime.run(
                        """
                        for i = 1, ... do
                            local o = Operation.new(function() return i end)
                            o:observe('isFinished', { 'new' }, function() local _ = o end)
                            if i % 4 == 0 then o:observe('name', function() local _ = o end); o.name = 'x' end
                            if i % 10 == 0 then queue:addOperation(o) end
                            if i % 1000 == 0 then opscript.sleep(0); queue:waitUntilAllOperationsAreFinished() end
                        end
                        """, arguments: [.integer(count)])
                    #expect(try runtime.finish().unreadFailures.isEmpty)
                    guard case .number(let used) = try runtime.run("collectgarbage() collectgarbage() return collectgarbage 'count'")[0]
                    else { return (0, 0) }
                    return (Int(used * 1024), allocated_bytes())
                }
                let before = try observe(5000), after = try observe(TestLength.isLong ? 100_000 : 15_000)
                // Tables have room for the largest number of handles that existed at once. That number depends on the pace of the
                // collector, so the tables may have doubled in size.
                #expect(after.0 - before.0 < 300_000, "\(before) then \(after)")
                #expect(after.1 - before.1 < 1_500_000, "\(before) then \(after)")
            }
        }
    }
}
