import LuaBindings
import OpEngine
import Testing

/// Operations that leave the state that made them.
@Suite struct SendingTests {
    @Test func copiesAreTakenWhenAnOperationIsAdded() throws {
        try script(
            """
            local t = { 1 }
            local o = Operation.new(function(op, argument) return t[1], argument[1] end, t)
            t[1] = 2
            queue.isSuspended = true
            queue:addOperation(o)
            t[1] = 3
            queue.isSuspended = false
            o:waitUntilFinished()
            assert(o.results[1] == 2 and o.results[2] == 2)
            """)
    }

    @Test func anOperationThatAWorkerAddsRunsWithItsBody() throws {
        try withRuntime { runtime throws in
            let outer = try runtime.operation(
                """
                local factor = 6
                local inner = Operation.new(function(op, x) return x * factor end, 7)
                return queue:addOperation(function() OperationQueue.new():addOperation(inner); return inner end)
                """)
            let inner = try #require(try runtime.results(of: outer)[0].operation)
            #expect(try runtime.results(of: inner) == [42])
        }
    }

    @Test func aChainOfOperationsThatReferToEachOtherIsSent() throws {
        try withRuntime { runtime throws in
            let first = try runtime.operation(
                """
                local following
                for i = 1, 2000 do
                    local next = following
                    following = Operation.new(function()
                        if not next then return 'end' end
                        OperationQueue.new():addOperation(next)
                        return next
                    end)
                end
                return queue:addOperation(following)
                """)
            var value = LuaValue.operation(first), count = 0
            while let operation = value.operation {
                value = try runtime.results(of: operation)[0]
                count += 1
            }
            #expect(value == "end" && count == 2000)
        }
    }

    @Test func whatCannotBeSentIsAnErrorWhereItIsAdded() throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) {
                try runtime.run(
                    "local f = io.tmpfile()\nlocal o = Operation.new(function() return f end)\nqueue:addOperation(o)", name: "@a.lua")
            }
            #expect(error?.message == "a.lua:3: cannot send upvalue 'f' (a userdata) of function <a.lua:2>; open it inside the body")
            let argument = #expect(throws: LuaError.self) { try runtime.run("queue:addOperation(function() end, 1, io.tmpfile())") }
            #expect(argument?.message == "script:1: cannot send argument 2 (a userdata); open it inside the body")
            #expect(try runtime.finish().stuckOperations.isEmpty)
        }
    }

    @Test func anOperationThatCouldNotBeAddedCanBeAddedElsewhere() throws {
        try script(
            """
            local f = io.tmpfile()
            local o = Operation.new(function() return io.type(f) end)
            assert(not pcall(queue.addOperation, queue, o))
            OperationQueue.main:addOperation(o)
            o:waitUntilFinished()
            assert(o.result == 'file')
            """)
    }

    @Test func aWorkerThatAddsWhatCouldNotBeSentGetsTheError() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation(
                """
                local f = io.tmpfile()
                local inner = Operation.new(function() return f end)
                return queue:addOperation(function()
                    return pcall(function() OperationQueue.new():addOperation(inner) end)
                end)
                """)
            let values = try runtime.results(of: operation)
            #expect(values == [false, "script:4: cannot send upvalue 'f' (a userdata) of function <script:2>; open it inside the body"])
        }
    }

    @Test func anOperationThatAWorkerAddsToTheMainQueueRunsAsItIs() throws {
        try withRuntime { runtime throws in
            let outer = try runtime.operation(
                """
                n = 0
                local f = io.tmpfile()
                local inner = Operation.new(function() n = n + 1; return io.type(f), n end)
                return queue:addOperation(function() OperationQueue.main:addOperation(inner); return inner end)
                """)
            let inner = try #require(try runtime.results(of: outer)[0].operation)
            #expect(try runtime.results(of: inner) == ["file", 1])
            #expect(try runtime.run("return n") == [1])
        }
    }

    @Test func anOperationMadeByAWorkerAndReturnedCanBeAddedHere() throws {
        try script(
            """
            local maker = queue:addOperation(function()
                local secret = 5
                return Operation.new(function(op, x) return secret + x end, 10)
            end)
            maker:waitUntilFinished()
            queue:addOperation(maker.result)
            maker.result:waitUntilFinished()
            assert(maker.result.result == 15)
            """)
    }

    @Test func operationsInStorageAndInResultsAreSent() throws {
        try script(
            """
            local n = 3
            local holder = Operation.new(function(op) OperationQueue.new():addOperation(op.inner) return op.inner end)
            holder.inner = Operation.new(function() return n end)
            queue:addOperation(holder)
            holder:waitUntilFinished()
            holder.inner:waitUntilFinished()
            assert(holder.result == holder.inner and holder.inner.result == 3)
            """)
    }

    @Test func objectsWithTransferAreRebuiltInTheWorker() throws {
        try script(
            """
            Matrix = {}
            Matrix.__index = Matrix
            function Matrix.new(n) return setmetatable({ n = n, owner = coroutine.create(print) }, Matrix) end
            Matrix.__transfer = function(self) return function(n) return Matrix.new(n) end, self.n end
            local m = Matrix.new(4)
            local o = queue:addOperation(function(op, other) return m.n + other.n, getmetatable(m) == Matrix, m end, Matrix.new(5))
            o:waitUntilFinished()
            assert(o.results[1] == 9 and o.results[2] == true and o.results[3].n == 4)
            """)
    }
}
