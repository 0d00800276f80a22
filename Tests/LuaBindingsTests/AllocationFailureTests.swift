import CTestSupport
import OpEngine
import Testing

@testable import LuaBindings

/// Each allocation of a Lua state fails in turn: that is an error that a script can catch, and nothing worse.
@Suite(.disabled(if: has_thread_sanitizer(), "one thread only")) struct AllocationFailureTests {
    /// Everything that scripts can call. Each is a chunk that must leave nothing behind; `o` is a fresh operation, `q` a fresh queue.
    static let steps = [
        "an operation": "return Operation.new(function(op, a) return a end, 1, { 2 })",
        "an operation with options": """
        return Operation.new {
          main = function() return n end, arguments = { 1, {} }, name = 'long enough not to be known', queuePriority = 'high',
          qualityOfService = 'utility', completionBlock = function() end, dependencies = { o }, dependencyPolicy = 'succeeded',
          memoryLimit = 1000000,
        }
        """,
        "wrong options": """
        local ok, message = pcall(Operation.new, { nmae = 1 })
        if message ~= 'not enough memory' then assert(message:find "did you mean 'name'", message) end
        ok, message = pcall(function() o.nane = 1 end)
        if message ~= 'not enough memory' then assert(message:find "did you mean 'name'", message) end
        ok, message = pcall(o.addDependency, 5)
        if message ~= 'not enough memory' then assert(message:find "call 'addDependency' with ':'", message) end
        """,
        "properties": """
        o.name, o.queuePriority, o.qualityOfService = 'a name of some length ' .. n, 4, 'background'
        o.memoryLimit, o.dependencyPolicy, o.isReady = 1 << 20, 'succeeded', true
        o.completionBlock = function() end
        assert(o.completionBlock)
        o.completionBlock = nil
        return tostring(o), o.name, o.isReady, o.isExecuting, o.isFinished, o.isCancelled, o.isAsynchronous, o.dependencies,
          o.queuePriority, o.qualityOfService, o.result, o.results, o.error, o.memoryLimit, o.dependencyPolicy, Operation.current
        """,
        "storage": "o.stored = { n, { 'text' }, function() return n end }; local t = o.stored; o.stored = nil; return t",
        "dependencies": """
        local other = Operation.new()
        o:addDependency(other)
        assert(o.dependencies[1] == other)
        local ok, message = pcall(other.addDependency, other, o)
        assert(not ok)
        o:removeDependency(other)
        return o:why()
        """,
        "a queue": """
        local queue = OperationQueue.new { name = 'a name of some length', maxConcurrentOperationCount = 3, isSuspended = true }
        queue.name = 'another name of some length'
        queue.qualityOfService, queue.dependencyPolicy, queue.isSuspended = 'utility', 'succeeded', false
        return tostring(queue), queue.name, queue.maxConcurrentOperationCount, queue.isSuspended, queue.qualityOfService,
          queue.dependencyPolicy, queue.operations, queue.operationCount, queue.progress, OperationQueue.main, OperationQueue.current,
          OperationQueue.defaultMaxConcurrentOperationCount
        """,
        "a function added": """
        local captured, again = { n, {} }, {}
        local added = q:addOperation(function(op, a) again[1] = captured; return again, n, helper(a), string.format('%d', 4) end, { 'a' })
        added:waitUntilFinished()
        if added.error then error(added.error.message, 0) end
        assert(added.result[1][1] == n and #added.results == 4 and added.results[3] == 'a')
        """,
        "operations added": """
        local list = { o, Operation.new(function() return n end) }
        list[2].completionBlock = function() end
        q:addOperations(list, true)
        assert(o.isFinished)
        return list[2].results
        """,
        "a barrier": "q:addBarrierBlock(function(op, x) return x end, {}); q:waitUntilAllOperationsAreFinished()",
        "added twice": """
        q.isSuspended = true
        q:addOperation(o)
        assert(not pcall(q.addOperation, q, o))
        q.isSuspended = false
        q:waitUntilAllOperationsAreFinished(30)
        """,
        "an operation started here":
            "local started = Operation.new(function(op, a) return a end, {}); started:start(); return started.result",
        "an operation on the main queue": """
        local main = OperationQueue.main:addOperation(function(op, a) return { a } end, n)
        main:waitUntilFinished()
        if main.error then error(main.error.message, 0) end
        return main.result[1]
        """,
        "an error": """
        local failed = q:addOperation(function() error { 'wrong', 'in', 'many', 'ways' } end)
        failed:waitUntilFinished()
        local e = failed.error
        return e.message, e.traceback, e.value, e.kind, e.operation, tostring(e)
        """,
        "cancelling": """
        q.isSuspended = true
        q:addOperation(o)
        o:cancel()
        q:cancelAllOperations()
        q.isSuspended = false
        o:waitUntilFinished()
        return o.isCancelled, o:interrupt()
        """,
        "what cannot be sent": """
        local ok, message = pcall(q.addOperation, q, function() return { { { coroutine.running() } } } end, { { { print, coroutine.running() } } })
        assert(not ok and (message:find 'not enough memory' or message:find "argument 1%[1%]%[1%]%[2%] %(a coroutine%)"), message)
        """,
        "operations sent by reference": """
        local inner = Operation.new(function() return n end)
        inner.completionBlock = function() end
        local outer = q:addOperation(function() opscript.OperationQueue.new():addOperation(inner) inner:waitUntilFinished() return inner end)
        outer:waitUntilFinished()
        if outer.error then error(outer.error.message, 0) end
        return outer.result.result
        """,
        "an object with __transfer": """
        local M = {}
        M.__transfer = function(self) return function(a) return setmetatable({ a = a }, M) end, self.a end
        local object = setmetatable({ a = { n } }, M)
        local added = q:addOperation(function() return object, { object } end)
        added:waitUntilFinished()
        if added.error then error(added.error.message, 0) end
        return added.results
        """,
        "time": "opscript.sleep(0); return opscript.now()",
        "a timer": "local timer = opscript.every(100, function() end); timer:cancel(); return tostring(timer)",
        "a timer that fires": "opscript.after(0, function() end); opscript.sleep(0)",
        "observing": """
        local token = o:observe('name', { 'old', 'new', 'prior' }, function(_, change) return change.new, change.old end)
        q:observe('operationCount', { 'new' }, function() end)
        o:observe('stored', function() end)
        o.name = 'a name that nobody has had before'
        o.stored = { n }
        opscript.sleep(0)
        token:invalidate()
        return tostring(token), token.keyPath
        """,
        "an asynchronous operation": """
        local request = Operation.new { asynchronous = true, main = function(op) op:finish({ n }, 'done') end, timeout = 100 }
        q:addOperation(request)
        request:waitUntilFinished()
        if request.error then error(request.error.message, 0) end
        return request.results
        """,
        "an asynchronous operation that fails": """
        local request = Operation.new { asynchronous = true, main = function(op) op:fail { 'refused', n } end }
        request:start()
        request:waitUntilFinished()
        return request.error.value
        """,
        "blocks": """
        local blocks = opscript.BlockOperation.new(function(op, a) return { a } end, n)
        blocks:addExecutionBlock(function(op, a) return a end, 'second')
        q:addOperation(blocks)
        blocks:waitUntilFinished()
        if blocks.error then error(blocks.error.message, 0) end
        return blocks.results, blocks.executionBlocks, tostring(blocks)
        """,
        "an invocation": """
        local object = { value = n, read = function(self, a) return { self.value, a } end }
        local invocation = opscript.InvocationOperation.new(object, 'read', 'argument')
        q:addOperation(invocation)
        invocation:waitUntilFinished()
        if invocation.error then error(invocation.error.message, 0) end
        return invocation.result[2]
        """,
        "a class": """
        local Shape = Operation:subclass 'Shape'
        function Shape:init(side) self.side = { side } end
        function Shape:main() return self.side[1], self:isKindOf(Shape) end
        local shape = Shape.new(n)
        q:addOperation(shape)
        shape:waitUntilFinished()
        if shape.error then error(shape.error.message, 0) end
        return shape.results, tostring(shape), tostring(Shape), shape:why()
        """,
        "a program": """
        local program = opscript.process { 'cat', input = 'text', env = { KEY = 'value' }, cwd = '/', timeout = 100 }
        local result = program:wait()
        assert(result.status == 0 and result.stdout == 'text')
        return tostring(program), program.pid, program.isRunning, program.stdout, pcall(opscript.process, { '/no/such/program' })
        """,
        "finalizers": """
        for i = 1, 50 do Operation.new() end
        local function nested(depth) if depth > 0 then return nested(depth - 1) + 1 end collectgarbage() return 0 end
        return nested(30)
        """,
        "captures": "local a, b = { n }, { coroutine.create(print) }; return opscript.captures(function() return a, b, helper end)",
        "the state": """
        local co = coroutine.wrap(function(...) local x = coroutine.yield(...) return pcall(error, x) end)
        co(1, {})
        co {}
        xpcall(error, function(m) return { m } end, {})
        return load 'return 1', require 'string', package.searchpath('opscript', package.path)
        """,
    ]

    /// Runs a step with its n-th allocation failing, n = 0, 1, 2 …, until none fails; returns how many did.
    private static let exhaust = """
        function helper(a) return a[1] end
        n = 7
        Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
        function exhaust(step)
          local failures = 0
          for number = 0, 100000 do
            o, q = Operation.new(function() return n end), OperationQueue.new()
            local ok, message = pcall(function()
              failAllocation(number)
              step()
            end)
            local done, hasFailed
            repeat done, hasFailed = pcall(stopFailing) until done
            if not ok and not (hasFailed and tostring(message):find 'not enough memory') then
              error(number .. ': ' .. tostring(message), 0)
            end
            q.isSuspended = false
            q:waitUntilAllOperationsAreFinished()
            OperationQueue.main:waitUntilAllOperationsAreFinished()
            if not hasFailed then return failures end
            failures = failures + 1
          end
        end
        """

    /// A runtime with one worker, whose scripts have `failAllocation(n)`, `stopFailing()` and `exhaust(step)`.
    private func withFailingRuntime(_ body: (Runtime) throws -> Void) throws {
        try withRuntime(workers: 1) { runtime in
            let core = try #require(try runtime.operation("return Operation.new()") as? LuaOperation).core
            try runtime.register("failAllocation") { arguments in
                guard let state = core.stateOfCurrentThread(), case .integer(let number)? = arguments.first else { return [] }
                unsafe fail_allocation(state.running, number)
                return []
            }
            try runtime.register("stopFailing") { _ in [.boolean(stop_failing())] }
            try runtime.run(Self.exhaust)
            try body(runtime)
            let ending = try runtime.finish()
            #expect(ending.stuckOperations.isEmpty)
        }
    }

    @Test("In the main state", arguments: steps.keys.sorted())
    func inTheMainState(name: String) throws {
        try withFailingRuntime { runtime in
            let step = try #require(Self.steps[name])
            let failures = try runtime.run("local text = ...; return exhaust(assert(load(text, '=step')))", arguments: [.string(step)])
            guard case .integer(let count)? = failures.first else { Issue.record("no count"); return }
            #expect(count > 0, "nothing is allocated")
        }
    }

    @Test("In a worker, below a body that goes on", arguments: steps.keys.sorted())
    func inAWorker(name: String) throws {
        try withFailingRuntime { runtime in
            let step = try #require(Self.steps[name])
            let operation = try #require(
                try runtime.run(
                    "return queue:addOperation(function(op, text) return exhaust(assert(load(text, '=step'))), helper end, ...)",
                    arguments: [.string(step)]
                ).first?.operation)
            guard case .integer(let count)? = try runtime.results(of: operation).first else { Issue.record("no count"); return }
            #expect(count > 0, "nothing is allocated")
        }
    }

    @Test func aBodyFailsForLackOfMemory() throws {
        try withFailingRuntime { runtime in
            try runtime.run(
                """
                local shared, kinds = { 1, { 2 } }, {}
                for number = 0, 100000 do
                  local added = queue:addOperation(function(op, a)
                    failAllocation(number)
                    op.stored = { a, shared }
                    local inner = opscript.OperationQueue.new():addOperation(function() return a end)
                    inner:waitUntilFinished()
                    return { inner.result }, helper { a }, tostring(op), ('x'):rep(1000), shared
                  end, { 'a' })
                  added:waitUntilFinished()
                  local stopped = queue:addOperation(function() return stopFailing() end)
                  stopped:waitUntilFinished()
                  local e = added.error
                  if e then
                    kinds[e.kind] = (kinds[e.kind] or 0) + 1
                    assert(e.message:find 'not enough memory', e.message)
                  else
                    assert(#added.results == 5 and added.results[5][2][1] == 2)
                    if not stopped.result then break end
                  end
                end
                assert(kinds.memory > 20 and next(kinds) == 'memory' and not next(kinds, 'memory'))
                """)
        }
    }

    @Test func whatABodyNeedsBeforeItBeginsFailsForLackOfMemory() throws {
        try withFailingRuntime { runtime in
            try runtime.run(
                """
                local shared, failures = { 1, { 2 } }, 0
                for number = 0, 100000 do
                  package.path = './?.lua;' .. number
                  local arm = queue:addOperation(function() failAllocation(number) end)
                  local function fresh() return shared, helper end
                  local added = queue:addOperation(load("local fresh, n = ...; return function(op, a) return a, fresh, helper { n } end")(fresh, number), { 'a' })
                  added:waitUntilFinished()
                  local stopped
                  repeat
                    stopped = queue:addOperation(function() return stopFailing() end)
                    stopped:waitUntilFinished()
                  until not stopped.error
                  for _, operation in ipairs { arm, added } do
                    local e = operation.error
                    if e then
                      failures = failures + 1
                      assert(e.kind == 'memory', e.message)
                    end
                  end
                  if not arm.error and not added.error and not stopped.result then break end
                end
                assert(failures > 20)
                """)
        }
    }
}
