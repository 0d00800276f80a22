import CTestSupport
import LuaBindings
import OpEngine
import TestLimits
import TestSupport
import Testing

/// Operations are released when nothing needs them.
@Suite struct LifetimeTests {
    /// References to an operation that are cycles: from its body or completion block, its storage, or its results.
    @Test(arguments: [
        "local o; o = Operation.new(function() return o end); return o",
        "local o = Operation.new(function(op) return op end); o.completionBlock = function() local _ = o end; return o",
        "local o = Operation.new(function() end); o.me = { o }; return o",
        "local o = Operation.new(function() end); o.completionBlock = function() end; o.me = o; return o",
        "local o = opscript.BlockOperation.new(function() return o end); return o",
        "local C = Operation:subclass 'C'; function C:main() return self end; return C.new()",
        "local o; o = Operation.new(print, o); return o",
        "local o = Operation.new(function() end, { Operation.new(function() end) }); o.isReady = false; return o",
    ])
    func operationsThatWereNeverAddedGo(_ source: String) throws {
        try withRuntime { runtime throws in
            weak var weakly: Operation?
            try { weakly = try runtime.operation(source) }()
            try runtime.run("collectgarbage() collectgarbage()")
            try runtime.drain()
            #expect(weakly == nil)
        }
    }

    @Test func operationsThatCaptureEachOtherGo() throws {
        try withRuntime { runtime throws in
            weak var weakly: Operation?
            try {
                let dependent = try runtime.operation(
                    """
                    local a, b
                    a = Operation.new(function() return b end)
                    b = Operation.new(function() return a end)
                    b:addDependency(a)
                    local o = Operation.new(function() end)
                    o:addDependency(a)
                    return o
                    """)
                weakly = dependent.dependencies[0]
                dependent.removeDependency(dependent.dependencies[0])
            }()
            try runtime.run("collectgarbage() collectgarbage()")
            try runtime.drain()
            #expect(weakly == nil)
        }
    }

    /// Another state could still have added the operations.
    @Test func operationsThatAnotherStateHadGo() throws {
        try script(
            workers: 1,
            """
            local gone = setmetatable({}, { __mode = 'k' })
            for i = 1, 10 do
                local key = {}
                gone[key] = true
                local o = Operation.new(function() return key end)
                o.completionBlock = function() return key end
                queue:addOperation(function(op, o) return o.isFinished end, o):waitUntilFinished()
            end
            while next(gone) do
                queue:addOperation(function() collectgarbage() end):waitUntilFinished()
                collectgarbage()
            end
            local late
            do
                local o = Operation.new(function() late = 'here' end)
                local go = queue:addOperation(function(op)
                    while not op.go do opscript.sleep(0.001) end
                    OperationQueue.main:addOperation(o)
                end)
                o = nil
                for i = 1, 3 do collectgarbage() end
                go.go = true
                go:waitUntilFinished()
                OperationQueue.main:waitUntilAllOperationsAreFinished()
            end
            assert(late == 'here')
            """)
    }

    @Test(arguments: [
        "local o; o = Operation.new(function() return o end); queue:addOperation(o); return o",
        "local o = Operation.new(function(op) return op end); o.completionBlock = function() local _ = o end; queue:addOperation(o); return o",
        "local o = Operation.new(function(op) error { op } end); queue:addOperation(o); return o",
        "local o = Operation.new(function(op) return { op } end); queue:addOperation(o); o:waitUntilFinished(); local _ = o.result; return o",
        "local o = Operation.new(function() return o end); OperationQueue.main:addOperation(o); return o",
        "local o; o = Operation.new(function() return o end); o.completionBlock = function() local _ = o end; o:start(); return o",
        "local o = Operation.new(function(op) op.me = { op } end); queue:addOperation(o); return o",
        "local o = Operation.new(function() end); queue:addOperation(function() OperationQueue.new():addOperation(o) end); return o",
        "local o = Operation.new(function() return function() return o end end); queue:addOperation(o); o:waitUntilFinished(); local _ = o.result; return o",
    ])
    func operationsThatHaveRunGo(_ source: String) throws {
        weak var weakly: Operation?
        try withRuntime(workers: 1) { runtime throws in
            try { weakly = try runtime.operation(source) }()
            _ = try runtime.finish()
            // The worker's state has handles, too.
            try runtime.run("queue:addOperation(function() collectgarbage() collectgarbage() end)")
            _ = try runtime.finish()
            try runtime.run("collectgarbage() collectgarbage()")
            try runtime.drain()
        }
        #expect(weakly == nil)
    }

    @Test func operationsThatCaptureEachOtherGoWhenCancelled() throws {
        weak var weakly: Operation?
        try withRuntime(workers: 1) { runtime throws in
            try {
                weakly = try runtime.operation(
                    """
                    queue.isSuspended = true
                    local a, b
                    a = Operation.new(function() return b end)
                    b = Operation.new(function() return a end)
                    queue:addOperations { a, b }
                    queue:cancelAllOperations()
                    queue.isSuspended = false
                    return a
                    """)
            }()
            _ = try runtime.finish()
            try runtime.run("collectgarbage() collectgarbage()")
            try runtime.drain()
        }
        #expect(weakly == nil)
    }

    /// The operations keep each other alive until the runtime closes.
    @Test(arguments: [
        "local a, b = Operation.new(function() end), Operation.new(function() end); a.friend, b.friend = b, a; return a",
        "local a, b; a = Operation.new(function() return b end); b = Operation.new(function() return a end); return a",
        "local a, b; a = queue:addOperation(function() while not b do b = a.other end return b end); b = queue:addOperation(function() return a end); a.other = b; return a",
    ])
    func operationsThatKeepEachOtherGoWithTheRuntime(_ source: String) throws {
        weak var weakly: Operation?
        try withRuntime(workers: 1) { runtime throws in
            try { weakly = try runtime.operation(source) }()
            _ = try runtime.finish()
        }
        #expect(weakly == nil)
    }

    @Test(.endsWithin(seconds: 60)) func theFunctionsThatACancelledOperationHeldGo() throws {
        try script(
            """
            local gone = setmetatable({}, { __mode = 'k' })
            for i = 1, 10 do
                local o = Operation.new(function() end)
                local key = {}
                gone[key] = true
                o.completionBlock = function() local _ = key end
                o:cancel()
                queue:addOperation(o)
            end
            queue:waitUntilAllOperationsAreFinished()
            while next(gone) do queue:addOperation(function() end):waitUntilFinished(); collectgarbage() end
            """)
    }

    @Test(arguments: ["main = function() end", "asynchronous = true, main = function(op) op:finish() end"])
    func operationsThatAScriptHasStartedGoWithoutAWait(_ arguments: String) throws {
        try script(
            """
            local alive, count = setmetatable({}, { __mode = 'k' }), 0
            for i = 1, 100 do
                local op = Operation.new { \(arguments) }
                alive[op] = true
                op:start()
            end
            collectgarbage() collectgarbage()
            for op in pairs(alive) do count = count + 1 end
            assert(count <= 1, count)
            """)
    }

    @Test func aLongChainOfOperationsGoesAtOnce() throws {
        try withRuntime(workers: 1) { runtime throws in
            try runtime.run(
                """
                last = false
                for i = 1, ... do
                    last = queue:addOperation(function(op, before) return before end, last)
                    if i % 1000 == 0 then last:waitUntilFinished() end
                end
                """, arguments: [.integer(TestLength.size(50_000))])
            weak let weakly = try runtime.operation("return last")
            // Only results keep the chain alive now.
            _ = try runtime.results(of: runtime.operation("return queue:addOperation(function() collectgarbage() collectgarbage() end)"))
            try runtime.run("collectgarbage() collectgarbage()")
            #expect(weakly != nil)
            try runtime.run("last = nil; collectgarbage() collectgarbage()")
            #expect(weakly == nil)
        }
    }

    @Test func anErrorMayHoldItsOperationAndOutliveIt() throws {
        try script(
            workers: 1,
            """
            local e
            do
                local o = queue:addOperation(function(op) error { op, code = 1 } end)
                o:waitUntilFinished()
                e = o.error
                assert(e.value[1] == o and e.value.code == 1)
            end
            queue:addOperation(function() collectgarbage() collectgarbage() end):waitUntilFinished()
            for i = 1, 3 do collectgarbage() end
            assert(e.operation == nil and e.value == e.message, e.operation)
            """)
    }

    @Test func manyOperationsLeaveNothingBehind() async {
        await #expect(processExitsWith: .success) {
            try withRuntime { runtime throws in
                func add(_ count: Int) throws -> (Int, Int) {
                    try runtime.run(
                        """
                        for i = 1, ... do
                            local o = Operation.new(function() return i end)
                            if i % 10 == 0 then o.completionBlock = function() local _ = o end end
                            queue:addOperation(o)
                            if i % 1000 == 0 then o:waitUntilFinished() end
                        end
                        queue:waitUntilAllOperationsAreFinished()
                        """, arguments: [.integer(count)])
                    #expect(try runtime.finish().unreadFailures.isEmpty)
                    guard case .number(let used) = try runtime.run("collectgarbage() collectgarbage() return collectgarbage 'count'")[0]
                    else { return (0, 0) }
                    return (Int(used * 1024), allocated_bytes())
                }
                let count = TestLength.size(50_000)
                let before = try add(count), after = try add(count)
                #expect(after.0 - before.0 < 500_000, "\(before) then \(after)")
                #expect(after.1 - before.1 < 1_500_000, "\(before) then \(after)")
            }
        }
    }

    /// The memory is freed however many operations there were at once, even while the last one still exists.
    @Test func memoryForManyOperationsIsGivenBack() async {
        await #expect(processExitsWith: .success) {
            try withRuntime { runtime throws in
                func add(_ count: Int) throws -> (Int, Int) {
                    try runtime.run(
                        """
                        local kept, body, finished = {}, function() end, 0
                        local function completion() finished = finished + 1 end
                        for i = 1, ... do
                            kept[i] = Operation.new(body)
                            kept[i].completionBlock = completion
                        end
                        last = Operation.new(body)
                        last.isReady = false
                        last.completionBlock = completion
                        queue:addOperations(kept)
                        OperationQueue.new():addOperation(last)
                        queue:waitUntilAllOperationsAreFinished()
                        while finished < #kept do opscript.sleep(0) end
                        """, arguments: [.integer(count)])
                    guard case .number(let used) = try runtime.run("for i = 1, 3 do collectgarbage() end return collectgarbage 'count'")[0]
                    else { return (0, 0) }
                    defer { _ = try? runtime.run("last.isReady = true; last:waitUntilFinished()") }
                    return (Int(used * 1024), allocated_bytes())
                }
                _ = try add(1000)
                let few = try add(1000), many = try add(TestLength.size(200_000))
                // At most one byte per operation: the registry keeps two numbers for 64 handles.
                #expect(many.0 - few.0 < 200_000, "\(few) then \(many)")
                #expect(many.1 - few.1 < 300_000, "\(few) then \(many)")
            }
        }
    }

    /// Each body is code that no worker has compiled yet, captures a closure, makes an operation, and may fail.
    @Test func bodiesLeaveNothingBehindInWorkers() async {
        await #expect(processExitsWith: .success) {
            try withRuntime(workers: 1) { runtime throws in
                func run(_ count: Int) throws -> (worker: Int, process: Int) {
                    let held = try runtime.run(
                        """
                        for i = 1, ... do
                            local value = { i }
                            local function fresh() return value[1] end
                            local body = load('local fresh = ... return function() return fresh(), ' .. i .. ' end')(fresh)
                            local o = queue:addOperation(function(op)
                                local inner = opscript.Operation.new(function() return body() end)
                                inner:start()
                                if i % 2 == 0 then error { inner.result } end
                                return inner.result
                            end)
                            o:waitUntilFinished()
                            assert(o.result == i or o.error.value[1] == i)
                        end
                        collectgarbage() collectgarbage()
                        local o = queue:addOperation(function()
                            collectgarbage() collectgarbage()
                            return collectgarbage 'count' * 1024 // 1 | 0
                        end)
                        o:waitUntilFinished()
                        return o.result
                        """, arguments: [.integer(count)])
                    guard case .integer(let worker) = held[0] else { return (0, 0) }
                    return (worker, allocated_bytes())
                }
                // A state keeps the last few thousand functions that it has compiled, which take some 2 MB here.
                let before = try run(TestLength.size(5000)), after = try run(TestLength.size(15_000))
                #expect(before.worker < 3_000_000 && after.worker < 3_000_000, "\(before) then \(after)")
                #expect(after.process - before.process < 4_000_000, "\(before) then \(after)")
            }
        }
    }

    @Test func failuresThatWereReadLeaveNothingBehind() async {
        await #expect(processExitsWith: .success) {
            try withRuntime { runtime throws in
                func fail(_ count: Int) throws -> Int {
                    try runtime.run(
                        """
                        for i = 1, ... do
                            local o = queue:addOperation(function() error(('x'):rep(1000)) end)
                            o:waitUntilFinished()
                            assert(o.error)
                        end
                        collectgarbage() collectgarbage()
                        """, arguments: [.integer(count)])
                    return allocated_bytes()
                }
                let before = try fail(3000), after = try fail(3000)
                #expect(after - before < 1_500_000, "\(before) then \(after)")
            }
        }
    }
}
