import LuaBindings
import OpEngine
import TestSupport
import Testing

/// A new operation of a script is only a handle, and then a word, until more must be stored. Scripts do not notice this.
@Suite struct DeferredOperationTests {
    /// The ways to access an operation, before and after it is added.
    private static let questions = [
        "none": "",
        "its name": "assert(o.name == nil) o.name = 'x'",
        "its state": "assert(not o.isExecuting or true)",
        "its words": "tostring(o)",
        "its storage": "o.mine = { 5 } assert(o.mine[1] == 5)",
        "a dependency":
            "local d = queue:addOperation(function() end) if not added then o:addDependency(d) assert(o.dependencies[1] == d) end",
        "a dependent": "local d = Operation.new(function() end) d:addDependency(o) assert(d.dependencies[1] == o) queue:addOperation(d)",
        "its completion block": "if not added then assert(o.completionBlock == block) end",
        "another completion block": "if not added then o.completionBlock = print o.completionBlock = block end",
        "why it waits": "o:why()",
        "an observer": "o:observe('isFinished', function() end)",
        "a reference": "queue:addOperation(function() return o end)",
        "a host": "echo(o)",
        "its priority": "if not added then o.queuePriority = 'high' end",
        "its readiness": "o.isReady = false o.isReady = true",
        "where it is": "for _, other in ipairs(queue.operations) do if other == o then break end end",
        "a collection": "collectgarbage()",
    ]

    private static let bodies = [
        "a plain one": "function() return i end",
        "with long results": "function() return i, ('r'):rep(100) end",
        "with its operation": "function(op) op.stored = i return i end",
        "with more than plain values": "function() return captured[1] + i - 1 end",
        "with globals": "function() return math.tointeger(tostring(i)) end",
        "with its operation captured": "function() return o and i end",
    ]

    @Test(arguments: questions.keys.sorted())
    func whateverAsksForItGetsTheOperation(question: String) throws {
        for body in Self.bodies.keys.sorted() {
            try withRuntime(workers: 2) { runtime throws in
                try runtime.register("echo") { $0 }
                try runtime.run(
                    """
                    local captured = { 1 }
                    local count, ended = 40, {}
                    for i = 1, count do
                        local o
                        o = Operation.new(\(Self.bodies[body] ?? ""))
                        local function block(op)
                            assert(op == o and op.isFinished and op.result == i, tostring(op.result))
                            ended[i] = (ended[i] or 0) + 1
                        end
                        o.completionBlock = block
                        local function ask(added) \(Self.questions[question] ?? "") end
                        if i % 3 == 0 then ask(false) end
                        queue:addOperation(o)
                        if i % 3 == 1 then ask(true) end
                    end
                    queue:waitUntilAllOperationsAreFinished()
                    for i = 1, count do assert(ended[i] == 1, i) end
                    """, name: "=\(question), \(body)")
                _ = try runtime.finish()
            }
        }
    }

    @Test func aCompletionBlockIsSetReadReplacedAndRemovedBeforeTheOperationIsAsked() throws {
        try script(
            """
            local log = {}
            local function block(name) return function(op) log[#log + 1] = name .. op.result end end
            local first, second = block 'first', block 'second'
            local a, b, c = Operation.new(function() return 1 end), Operation.new(function() return 2 end), Operation.new(function() return 3 end)
            a.completionBlock = first
            a.completionBlock = second
            b.completionBlock = first
            b.completionBlock = nil
            c.completionBlock = nil
            c.completionBlock = first
            for _, o in ipairs { a, b, c } do queue:addOperation(o) end
            assert(a.completionBlock == second or a.isFinished)
            queue:waitUntilAllOperationsAreFinished()
            table.sort(log)
            assert(table.concat(log, ' ') == 'first3 second1', table.concat(log, ' '))
            local ok, message = pcall(function() Operation.new(function() end).completionBlock = 5 end)
            assert(not ok and message:find('function', 1, true) and message:find('number', 1, true), message)
            """)
    }

    /// The setter of completion blocks, written in C, rejects values that are not handles.
    @Test func theMetatableOfOperationsDoesNotTrustItsArguments() throws {
        try script(
            """
            local set = debug.getmetatable(Operation.new()).__newindex
            local f = function() end
            for _, value in ipairs { io.stdout, {}, 5, queue, f, coroutine.create(f) } do
                assert(not pcall(set, value, 'completionBlock', f))
            end
            assert(not pcall(set) and not pcall(set, Operation.new(f)))
            local o = Operation.new(f)
            set(o, 'completionBlock', f, 'more', 'than', 'three')
            assert(o.completionBlock == f)
            """)
    }

    /// Short results fit into a word and longer ones do not. The operation may have a completion block or other stored properties.
    @Test func resultsOfEverySizeComeBack() throws {
        try script(
            """
            local function same(a, b) return a == b and math.type(a) == math.type(b) or a ~= a and b ~= b end
            local samples = { true, false, 0, -0.0, 1.5, 0/0, math.huge, '', 'a', 'ab', 'abc', 'abcd', 'abcde', 'abcdef', ('x'):rep(100), math.mininteger }
            for bits = 0, 62 do
                for _, n in ipairs { 1 << bits, (1 << bits) - 1, -(1 << bits), ~(1 << bits) } do samples[#samples + 1] = n end
            end
            local count = 0
            for i, sample in ipairs(samples) do
                for how = 1, 3 do
                    local o = Operation.new(function() return sample end)
                    if how > 1 then o.completionBlock = function(o) count = count + 1 assert(same(o.result, sample), i) end end
                    queue:addOperation(o)
                    if how > 2 then o.kept = sample end
                    o:waitUntilFinished()
                    assert(same(o.result, sample) and o.results.n == 1 and (how < 3 or same(o.kept, sample)), i)
                end
            end
            assert(count == 2 * #samples)
            for n = 0, 20 do
                local values = table.pack(table.unpack({}, 1, n))
                local o = Operation.new(function() return table.unpack({}, 1, n) end)
                local empty = Operation.new(function() end)
                o.completionBlock, empty.completionBlock = print and function() end, function() end
                queue:addOperations({ o, empty }, true)
                assert(o.results.n == n and o.result == nil and empty.results.n == 0)
            end
            """)
    }

    @Test func argumentsGoWithTheBody() throws {
        try script(
            """
            local o = Operation.new(function(op, a, b, ...) return a, b, select('#', ...) end, 1, nil, nil)
            queue:addOperation(o)
            o:waitUntilFinished()
            assert(o.result == 1 and o.results[2] == nil and o.results[3] == 1 and o.results.n == 3)
            """)
    }

    @Test func onTheMainQueueItRunsAsItIs() throws {
        try script(
            """
            local seen = {}
            local o = Operation.new(function() seen[#seen + 1] = 'body' end)
            o.completionBlock = function() seen[#seen + 1] = 'block' end
            OperationQueue.main:addOperation(o)
            OperationQueue.main:waitUntilAllOperationsAreFinished()
            assert(table.concat(seen, ' ') == 'body block')
            """)
    }

    @Test func oneThatNobodyAsksForIsJustGarbage() throws {
        try script(
            """
            local function bytes() collectgarbage() collectgarbage() return collectgarbage('count') * 1024 end
            local function make(count)
                for i = 1, count do Operation.new(function() return i end).completionBlock = function() return i end end
            end
            make(1000)
            local before = bytes()
            make(20000)
            assert(bytes() - before < 20000, bytes() - before)
            """)
    }

    @Test func oneThatIsRefusedIsWhatItWas() throws {
        try withRuntime { runtime throws in
            #expect(runtime.engine.shutdown(deadline: .seconds(30)).isEmpty)
            try runtime.run(
                """
                local ended = 0
                local o = Operation.new(function() return 5 end)
                local function block() ended = ended + 1 end
                o.completionBlock = block
                local ok, message = pcall(queue.addOperation, queue, o)
                assert(not ok and message:find 'shut down', message)
                assert(o.completionBlock == block and not o.isFinished and #queue.operations == 0)
                o.completionBlock = nil
                assert(not pcall(queue.addOperation, queue, o))
                """)
        }
    }

    /// The finalizer runs while the operation is added: telling the workers the changed path may start a collection.
    @Test func aFinalizerMayAskForItWhileItIsAdded() throws {
        try script(
            """
            local other = OperationQueue.new { isSuspended = true }
            collectgarbage('incremental', 150, 1000, 30)
            local kept = {}
            local function body(i)
                kept[#kept + 1] = function(op) return i end
                return kept[#kept]
            end
            queue:addOperation(Operation.new(body(0)))
            local function add()
                local o, t = Operation.new(body(1)), {}
                for j = 1, 65536 do t[j] = j end
                collectgarbage()
                do
                    local garbage = setmetatable({}, { __gc = function()
                        o.name = 'first'
                        other:addOperation(o)
                    end })
                end
                package.path = package.path .. ';'
                t[65537] = 1
                local ok, message = pcall(queue.addOperation, queue, o)
                assert(o.name == 'first' and other.operations[1] == o)
                assert(not ok and message:find 'already in a queue', message)
            end
            add()
            queue:waitUntilAllOperationsAreFinished()
            collectgarbage()
            local others = {}
            for i = 1, 200 do
                others[i] = Operation.new(body(i))
                others[i].name = 'other'
            end
            assert(other.operations[1].name == 'first')
            other.isSuspended = false
            """)
    }

    @Test func whatTheDebugLibraryPutsInThePlaceOfItsBodyIsNone() throws {
        try script(
            """
            for _, value in ipairs { 5, 'text', true } do
                local o = Operation.new(function() end)
                debug.setuservalue(o, value, 1)
                local ok, message = pcall(queue.addOperation, queue, o)
                assert(not ok and message:find 'no main function', message)
            end
            """)
    }

    /// The word becomes a structure on one thread while others run the body, cancel the operation, and end it.
    @Test func itMayGrowAtAnyTime() throws {
        try withRuntime(workers: 3) { runtime throws in
            try runtime.run(
                """
                math.randomseed(20261123)
                local count, ended, cancelled = \(TestLength.size(20000)), 0, 0
                local operations = {}
                for i = 1, count do
                    local how = math.random(6)
                    local o = Operation.new(how == 1 and function(op) op.inside = i return i end or function() return i end)
                    o.completionBlock = function(op)
                        assert(op == o and (op.result == i or op.isCancelled and op.result == nil), i)
                        ended = ended + 1
                    end
                    queue:addOperation(o)
                    operations[i % 8] = o
                    local other = operations[math.random(0, 7)]
                    if other then
                        if how == 2 then other.outside = i end
                        if how == 3 then other:cancel() end
                        if how == 4 then queue:addOperation(function() other:cancel() end) end
                        if how == 5 then queue:addOperation(function() other.elsewhere = i end) end
                    end
                    if math.random(50) == 1 then o:waitUntilFinished() end
                end
                queue:waitUntilAllOperationsAreFinished()
                assert(ended == count, ended)
                """)
            _ = try runtime.finish()
        }
    }
}
