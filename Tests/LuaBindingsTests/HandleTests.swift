import LuaBindings
import OpEngine
import TestSupport
import Testing

/// An operation of the host that calls a function in its deinitialiser.
private final class Going: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because its only field is a constant.
    private let goes: @Sendable () -> Void

    private init(_ goes: @escaping @Sendable () -> Void) { self.goes = goes }

    deinit { goes() }

    /// Makes such operations available to scripts as `make()`.
    static func register(in runtime: Runtime, _ goes: @escaping @Sendable (Runtime) throws -> Void) throws {
        // The runtime outlives the operations.
        let go: @Sendable () -> Void = { [unowned runtime] in
            do { try goes(runtime) } catch { Issue.record(error) }
        }
        try runtime.register("make") { _ in [.operation(Going(go))] }
    }
}

/// An operation has one handle in each state, wherever the state got it from.
@Suite struct HandleTests {
    @Test func whatScriptsDoToTheBuiltInClassBeforeTheFirstOperationChangesNoClass() throws {
        try script(
            """
            local subclass, cancelled = Operation.subclass, false
            Operation.subclass = nil
            local Careful = subclass(Operation, 'Careful')
            function Careful:cancel() cancelled = true; Operation.cancel(self) end
            local o = Careful.new()
            o:cancel()
            assert(cancelled and o.isCancelled and o.subclass == nil)
            """)
    }

    /// Handles on the stack of a C function keep the host's objects alive while it runs, so scripts must not overwrite them.
    @Test func whatFunctionsOfCHaveOnTheirStacksIsNoLocalVariable() throws {
        try script(
            """
            local set
            table.sort({ 2, 1 }, function(a, b)
                set = debug.setlocal(2, 1, nil)
                return a < b
            end)
            assert(set == nil)
            local own = 1
            assert(debug.setlocal(1, 2, 5) == 'own' and own == 5)
            local other = coroutine.create(function(theirs) coroutine.yield() return theirs end)
            coroutine.resume(other, 1)
            assert(debug.setlocal(other, 0, 1, 7) == nil and debug.setlocal(other, 1, 1, 6) == 'theirs')
            assert(select(2, coroutine.resume(other)) == 6)
            assert(not pcall(debug.setlocal, 'a', 1, 1) and not pcall(debug.setlocal, 100, 1, 1) and not pcall(debug.setlocal))
            """)
    }

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

    /// Finalizers run when the handle table grows.
    @Test func finalizersMayMakeOperations() throws {
        try script(
            """
            local kept = {}
            local function make() kept[#kept + 1] = Operation.new(function() end) end
            for i = 1, 20000 do
                setmetatable({}, { __gc = make })
                make()
            end
            collectgarbage()  -- no finalizer is left that changes `kept` while it is read
            queue.isSuspended = true
            queue:addOperations(kept)
            local listed = queue.operations
            assert(#listed == #kept)
            for i = 1, #kept do assert(listed[i] == kept[i]) end
            queue:cancelAllOperations()
            queue.isSuspended = false
            """)
    }

    /// The operation is already garbage when the finalizer uses its handle.
    @Test func finalizersMayAddOperationsThatOnlyTheyReferTo() throws {
        try script(
            """
            local ended = 0
            for i = 1, 100 do
                local o = Operation.new(function() return i end)
                o.completionBlock = function(o)
                    assert(o.result == i)
                    ended = ended + 1
                end
                setmetatable({ o }, { __gc = function(t) queue:addOperation(t[1]) end })
            end
            collectgarbage() collectgarbage()
            queue:waitUntilAllOperationsAreFinished()
            opscript.sleep(0)
            assert(ended == 100, ended)
            """)
    }

    /// The host may do anything in a deinitialiser: no collection is running then, and no other deinitialiser.
    @Test func anObjectOfTheHostMayRunAScriptWhenItGoes() throws {
        let (calls, most) = (Locked(0), Locked(0))
        try withRuntime { runtime throws in
            let depth = Locked(0)
            try Going.register(in: runtime) {
                let now = depth.withLock {
                    $0 += 1
                    return $0
                }
                most.withLock { $0 = max($0, now) }
                try $0.run("gone = gone + 1; for i = 1, 100 do local t = { i } end make_other() collectgarbage()")
                depth.withLock { $0 -= 1 }
                calls.withLock { $0 += 1 }
            }
            try runtime.register("make_other") { _ in [.operation(Operation())] }
            try runtime.run("gone = 0; for i = 1, 1000 do make() end collectgarbage() collectgarbage()")
            #expect(try runtime.run("return gone") == [1000])
            // The deinitialiser runs as soon as a collection ends, even when no function of the host is called.
            try runtime.run("make() for i = 1, 1000000 do local t = { i } if gone == 1001 then return end end error 'not yet'")
        }
        #expect(calls.withLock { $0 } == 1001 && most.withLock { $0 } == 1)
    }

    @Test func anObjectThatGoesWithTheRuntimeIsToldSo() throws {
        let messages = Locked<[String]>([])
        try withRuntime { runtime throws in
            try Going.register(in: runtime) {
                do { try $0.run("error 'it ran'") } catch { messages.withLock { $0.append("\(error)") } }
            }
            try runtime.run("kept = {} for i = 1, 3 do kept[i] = make() end")
        }
        #expect(messages.withLock { $0 } == Array(repeating: "the runtime is closed", count: 3))
    }

    /// At the limit of nested calls Lua cannot call a finalizer and drops it.
    @Test func objectsGoAfterFinalizersWereDropped() throws {
        try withRuntime { runtime throws in
            let gone = Locked(0)
            try Going.register(in: runtime) { _ in gone.withLock { $0 += 1 } }
            try runtime.run("make() local function deep() collectgarbage() string.gsub('a', 'a', deep) end pcall(deep)")
            try runtime.run("for i = 1, 1000 do make() end collectgarbage()")
            #expect(gone.withLock { $0 } >= 1000)
            try runtime.run("for i = 1, 1000 do make() end for i = 1, 1000000 do local t = { i } end")
            #expect(gone.withLock { $0 } >= 1999)
        }
    }

    /// While the first handle is made, the collector runs a finalizer that asks for a handle of the same operation.
    @Test func aFinalizerThatGetsAHandleWhileItIsMadeGetsTheSame() throws {
        try script(
            """
            local o = queue:addOperation(function() end)
            local dependent = Operation.new(function() end)
            dependent:addDependency(o)
            o = nil
            for i = 1, 200 do
                local saved
                collectgarbage() collectgarbage()
                setmetatable({}, { __gc = function() saved = dependent.dependencies[1] end })
                for _ = 1, 20 do local _ = {} end
                collectgarbage 'stop' collectgarbage 'restart'
                local listed = dependent.dependencies[1]
                assert(saved == nil or saved == listed)
            end
            """)
    }

    /// The body captures nothing. It obtains a function that reads `package.path` from a dependency.
    @Test func aPathThatHasChangedIsKnownToABodyThatComesToOthersFunctions() throws {
        try script(
            workers: 1,
            """
            local function path() return package.path end
            local function run(dependency)
                local o = Operation.new(function(op)
                    local d = op.dependencies[1]
                    return d and d.result()
                end)
                if dependency then o:addDependency(dependency) end
                queue:addOperation(o):waitUntilFinished()
                assert(not o.error, o.error)
                return o.result
            end
            run()
            local dependency = queue:addOperation(function() return path end)
            dependency:waitUntilFinished()
            package.path = 'changed/?.lua'
            assert(run(dependency) == 'changed/?.lua')
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

    /// The functions were copied when the operation was added. Its results take their place.
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
            debug.setmetatable(o, nil)
            assert(not pcall(queue.addOperation, queue, io.stdout))
            queue:addOperation(o)
            queue:waitUntilAllOperationsAreFinished()
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
