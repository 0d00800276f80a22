import LuaBindings
import Testing

/// An operation is one value in a state, however it came there.
@Suite struct HandleTests {
    @Test func handlesAreEqualOnEveryPath() throws {
        try script(
            """
            local a, b = Operation.new(function() end), Operation.new(function() end)
            b:addDependency(a)
            assert(b.dependencies[1] == a and b.dependencies ~= b.dependencies)
            local names = { [a] = 'a', [b] = 'b' }
            assert(names[b.dependencies[1]] == 'a')
            queue.isSuspended = true
            assert(queue:addOperation(a) == a and queue:addOperation(b) == b)
            assert(queue.operations[1] == a and names[queue.operations[2]] == 'b' and queue.operationCount == 2)
            queue.isSuspended = false
            """)
    }

    @Test func anOperationThatTravelsIsTheSame() throws {
        try script(
            """
            local a = queue:addOperation(function(op) return op, { op } end)
            a:waitUntilFinished()
            assert(a.result == a and a.results[2][1] == a)
            a.friend = a
            assert(a.friend == a)
            local t = { [a] = 'key' }
            local b = queue:addOperation(function(op, x) return t[a] == 'key' and t[x] == 'key' and a == x and Operation.current == op end, a)
            b:waitUntilFinished()
            assert(b.result == true, b.error)
            """)
    }

    @Test func queuesAreTheSame() throws {
        try script(
            """
            assert(OperationQueue.main == OperationQueue.main and OperationQueue.current == OperationQueue.main)
            local o = queue:addOperation(function() return OperationQueue.current == queue, queue end)
            o:waitUntilFinished()
            assert(o.results[1] == true and o.results[2] == queue)
            """)
    }

    /// Making room for more handles runs them.
    @Test func finalizersMayMakeOperations() throws {
        try script(
            """
            local kept = {}
            local function make() kept[#kept + 1] = Operation.new(function() end) end
            for i = 1, 20000 do
                setmetatable({}, { __gc = make })
                make()
            end
            queue.isSuspended = true
            queue:addOperations(kept)
            local listed = queue.operations
            assert(#listed == #kept)
            for i = 1, #kept do assert(listed[i] == kept[i]) end
            queue:cancelAllOperations()
            queue.isSuspended = false
            """)
    }

    @Test func aHandleThatWasCollectedComesBackWithItsOperation() throws {
        try script(
            """
            queue.isSuspended = true
            do queue:addOperation(function() return 'body' end).label = 'stored' end
            collectgarbage() collectgarbage()
            local again = queue.operations[1]
            assert(again.label == 'stored')
            queue.isSuspended = false
            again:waitUntilFinished()
            assert(again.result == 'body')
            """)
    }

    /// They were copied. What the operation ends with takes their place.
    @Test func anOperationThatWasAddedLetsGoOfItsFunctions() throws {
        try script(
            """
            local alive = setmetatable({}, { __mode = 'k' })
            local function make()
              local value = { 1, 2, 3 }
              alive[value] = true
              return Operation.new(function(_, x) return value, x end, 'x')
            end
            queue.isSuspended = true
            local added, kept = queue:addOperation(make()), make()
            collectgarbage() collectgarbage()
            assert(next(alive) and not next(alive, (next(alive))), 'only what the other one captures is there')
            queue.isSuspended = false
            for _, op in ipairs { added, queue:addOperation(kept) } do
              op:waitUntilFinished()
              assert(op.result[3] == 3 and op.results[2] == 'x' and op.results == op.results and op.result == op.results[1])
            end
            assert(not pcall(queue.addOperation, queue, added) and added.result[3] == 3)
            """)
    }

    @Test func metatablesOfHandlesAreOutOfReach() throws {
        try script(
            """
            local o = Operation.new(function() end)
            assert(getmetatable(o) == false and not pcall(setmetatable, o, {}))
            assert(not pcall(debug.getmetatable(o).__index, io.stdout, 'name'))
            assert(not pcall(debug.getmetatable(o).__index, 5, 'name'))
            assert(not pcall(debug.getmetatable(o).__newindex, {}, 'name', 1))
            debug.getmetatable(o).__gc(io.stdout)
            debug.getmetatable(o).__gc()
            """)
    }

    @Test func methodsSayWhenTheyAreCalledWithADot() throws {
        try withRuntime { runtime throws in
            for (source, message) in [
                ("Operation.new(print).start()", "call 'start' with ':', as in operation:start(...); what came before it is a no value"),
                (
                    "queue.addOperation(print)",
                    "call 'addOperation' with ':', as in queue:addOperation(...); what came before it is a function"
                ),
            ] {
                let error = #expect(throws: LuaError.self) { try runtime.run(source) }
                #expect(error?.message == "script:1: " + message)
            }
        }
    }
}
