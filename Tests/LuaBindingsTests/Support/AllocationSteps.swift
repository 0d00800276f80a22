/// Everything that scripts can call, under a short description. Each step is a chunk that must leave nothing behind. It may use `o`, a new
/// operation; `q`, a new queue; `n`, a number; `helper`, a function; `echo`, a function of the host that returns its arguments;
/// `describe`, one with typed parameters; and `Counter`, a class of the host.
enum AllocationSteps {
    static let all = others.merging(programs) { first, _ in first }.merging(files) { first, _ in first }

    private static let others = [
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
          queue.dependencyPolicy, queue.operations, queue.operationCount, queue.progress, queue.underlyingQueue, OperationQueue.main, OperationQueue.current,
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
        "a map": """
        local sum = 0
        for _, x in q:map(helper, { { 1 }, { 2 }, { 3 } }) do sum = sum + x end
        assert(sum == 6)
        assert(q:forEach(helper, { { 1 }, { 2 } }, { onError = 'collect' }) == 2)
        assert(not pcall(q.forEach, q, function(key, value) error({ message = key, value }) end, { x = { n } }, { retry = 2, needs = {} }))
        return q:reduce(helper, math.max, { { 1 }, { 2 } })
        """,
        "a channel": """
        local channel = opscript.channel { capacity = 2, name = 'a name of some length' }
        assert(channel:send({ n }, 'text', helper) and channel:trySend(n) and not channel:trySend(n) and not channel:sendWithin(0, {}))
        local t, text, f = channel:receive()
        assert(t[1] == n and text == 'text' and f({ 4 }) == 4 and channel.count == 1 and #channel == 1 and channel.capacity == 2)
        assert(channel:tryReceive() == n and channel:receive(0) == nil)
        channel:close()
        for _ in channel do end
        return tostring(channel), channel.name, channel.isClosed, pcall(channel.send, channel, n)
        """,
        "several channels": """
        local a, b = opscript.channel(), opscript.channel { capacity = 1 }
        local which, isSent = opscript.select { a = a, b = { b, { n }, 'text' }, timeout = 100 }
        assert(which == 'b' and isSent and opscript.select { a = a, b = { b, n }, timeout = 0 } == 'timeout') a:close() b:close()
        for which, value in opscript.merge { a = a, b = b } do assert(which == 'b' and value[1] == n) end
        return pcall(opscript.select, { { b, n } }), opscript.merge(a, b)()
        """,
        "a channel to a worker": """
        local channel <close> = opscript.channel()
        local added = q:addOperation(function() return channel:receive() end)
        channel:send({ n, {} })
        added:waitUntilFinished()
        if added.error then error(added.error.message, 0) end
        assert(added.result[1] == n)
        """,
        "a frozen value": """
        local frozen = opscript.freeze { n, { 'text', key = { o, helper and string.format } }, [1.5] = ('x'):rep(20000) }
        assert(opscript.isFrozen(frozen) and frozen[2].key[1] == o and #frozen[1.5] == 20000)
        for k, v in pairs(frozen[2]) do assert(frozen[2][k] == v) end
        assert(opscript.json.decode('[[], {"key": 1}]', { frozen = true })[2].key == 1)
        return opscript.thaw(frozen), tostring(frozen)
        """,
        "lines": "for line in opscript.lines '/proc/self/statm' do assert(#line > 0) end",
        "waiting for any": "return opscript.waitForAny { o, q:addOperation(function() end) }, opscript.workerCount()",
        "getting results": """
        assert(q:addOperation(function(_, a) return a, 'text' end, n):get() == n and q:run(function() return 'text' end) == 'text')
        local function one() return 1 end
        local ops = { q:addOperation(one), key = q:addOperation(one) }
        assert(opscript.all(ops).key == 1 and opscript.race(ops) == 1 and opscript.settle(ops)[1].status == 'succeeded')
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
        "an operation with requirements": """
        opscript.resources { gpu = 2, memory = '1G' }
        local tried = Operation.new {
          exclusive = { 'a', 'b' }, needs = { gpu = 1 }, retry = { attempts = 3, delay = 0.0001 },
          conditions = { function() return n, 'none' end, 'noFailedDependencies' },
          main = function(op) if op.attempt < 2 then error('no', 0) end return n end,
        }
        tried:addCondition 'noCancelledDependencies'
        q.maxPendingOperationCount, q.rateLimit = 2, { count = 1000000 }
        q:addOperation(tried):waitUntilFinished()
        q.maxPendingOperationCount, q.rateLimit = nil, nil
        if tried.error then error(tried.error.message, 0) end
        return tried.result, tried.attempts, tried.retry, tried.exclusive, tried.needs, tried.attempt, opscript.resources()
        """,
        "queues of a cluster": """
        local function make(cluster) return OperationQueue.new { cluster = cluster, delivery = 'atMostOnce', maxDeliveries = 2 } end
        local ok, message = pcall(make, true)
        if not tostring(message):find 'there is no cluster' then error(message, 0) end
        return make(false)
        """,
        "operations that ask the store": """
        local function ask(options)
          options.memoize, options.version, options.env, options.keepOnFailure = true, { n }, { 'HOME' }, true
          options.inputs, options.main = { '/no/such/input', optional = true }, function(op, a) return { a, n } end
          options.arguments = { { n, x = {} } }
          local op = Operation.new(options)
          q:addOperation(op):waitUntilFinished()
          if op.error then error(op.error.message, 0) end
          return op
        end
        local kept, other = ask {}, ask { outputs = {}, atomic = false, depfile = '/no/such/depfile' }
        return kept.result, kept.isSkipped, kept:whyRun(), other.result
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
        "a function with typed parameters": """
        local text = describe('a text of some length ' .. n, { list = { n, 1.5 }, other = {} })
        assert(text:find '2 parts')
        local ok, message = pcall(describe, 'x', { list = { 'y' } })
        assert(not ok and (message:find 'not enough memory' or message:find 'expected a number'), message)
        return text
        """,
        "a table read where it is": "return table.unpack(read { 'a', list = { 'b', [2.5] = 'c', key = { n } } })",
        "a frozen table read where it is": "return table.unpack(read(opscript.freeze { 'a', list = { 'b', [2.5] = 'c', key = { n } } }))",
        "an object of the host": """
        local counter = Counter.new()
        counter:add(n)
        assert(counter.count == n and tostring(counter) == 'Counter')
        local added = q:addOperation(function() counter:add(1) return counter, counter.count end)
        added:waitUntilFinished()
        if added.error then error(added.error.message, 0) end
        assert(added.result == counter and added.results[2] == n + 1)
        return { [counter] = counter }
        """,
        "time": "opscript.sleep(0); return { opscript.now() }",
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
        "a group": """
        local group = opscript.GroupOperation.new { name = 'g', operations = { function() return { n } end, Operation.new(function(op, a) return a end, 's') } }
        group:addOperation(function(op, a) op.group:addOperation(function() return a end) return a end, n)
        q:addOperation(group)
        group:waitUntilFinished()
        if group.error then error(group.error.member.error.message, 0) end
        return group.results, #group.operations, tostring(group)
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
        "a prelude": """
        opscript.prelude(function() prepared = { n } end)
        local added = q:addOperation(function() return prepared[1] end)
        added:waitUntilFinished()
        if added.error then error(added.error.message, 0) end
        assert(added.result == n)
        """,
        "os.exit": """
        local ok, message = pcall(os.exit, 3)
        assert(not ok and (message:find 'os.exit is not allowed here' or message == 'not enough memory'), message)
        """,
        "printing": """
        local file <close> = assert(io.open('/dev/null', 'w'))
        local before <close> = setmetatable({ io.output() }, { __close = function(before) io.output(before[1]) end })
        io.output(file)
        assert(io.write('text', n, 2.5, ('long'):rep(300)) == file and file:write(n, 'text', 1e100) == file)
        local ok, message = pcall(print, ('long'):rep(300), n, 2.5, {}, o, q, setmetatable({}, { __tostring = function() error 'no text' end }))
        assert(not ok and (message:find 'no text' or message == 'not enough memory'), message)
        ok, message = pcall(io.write, 'text', {})
        assert(not ok and (message:find 'string expected, got table' or message:find 'not enough memory'), message)
        """,
        "a function of the host": """
        local results = table.pack(echo(n, 2.5, 'text', true, nil, { 1, { key = 'value' } }, o, q))
        assert(results.n == 8 and results[6][2].key == 'value' and results[7] == o and results[8] == q)
        """,
        "an operation's class": """
        local block = opscript.BlockOperation.new(function() end)
        assert(block:isKindOf(Operation) and block:isKindOf(opscript.BlockOperation) and not o:isKindOf(opscript.InvocationOperation))
        local ok, message = pcall(o.isKindOf, o, {})
        assert(not ok and (message:find 'class of operations expected' or message == 'not enough memory'), message)
        """,
        "why": """
        local function blockage(operation)
          local sentence, fields = operation:why()
          assert(type(sentence) == 'string')
          return fields
        end
        local waiting = Operation.new { main = function() end, dependencies = { o }, name = 'waiting' }
        o.isReady, q.isSuspended = false, true
        q:addOperation(waiting)
        local fields = blockage(o)
        assert(fields.isReadyByItself == false and fields.isInQueue == false)
        fields = blockage(waiting)
        assert(fields.queue == q and fields.isSuspended and fields.unfinishedDependencies[1] == o and fields.neverAdded[1] == o)
        local barrier, behind = q:addBarrierBlock(function() end), q:addOperation(function() end)
        assert(blockage(barrier).before[1] == waiting and blockage(behind).barrier == barrier)
        waiting:cancel()
        q.maxConcurrentOperationCount = 0
        q.isSuspended = false
        assert(blockage(behind).maxConcurrentOperationCount == 0)
        q.maxConcurrentOperationCount = 1
        """,
        "a wait that cannot end": """
        o.name = 'never added'
        local ok, message = pcall(o.waitUntilFinished, o)
        assert(not ok and (message:find 'this wait can never end: .never added. was never added' or message == 'not enough memory'), message)
        return o:waitUntilFinished(0), q:waitUntilAllOperationsAreFinished(0)
        """,
        "an interruption": """
        local endless = Operation.new { main = function(op) op.begun = true pcall(load 'while true do end') end, timeout = 0.2 }
        q:addOperation(endless)
        while not endless.begun do opscript.sleep(0.001) end
        endless:interrupt()
        endless:waitUntilFinished()
        assert(endless.error.kind == 'interrupted' or endless.error.kind == 'timeout', endless.error.message)
        return endless.timeout, endless.error.traceback
        """,
        "memory used up": """
        local greedy = Operation.new { main = function() return ('x'):rep(1 << 22) end, memoryLimit = 1 << 18 }
        q:addOperation(greedy)
        greedy:waitUntilFinished()
        assert(greedy.error.kind == 'memory', greedy.error.kind .. greedy.error.message)
        greedy = Operation.new { main = function() return ('x'):rep(1 << 22) end, memoryLimit = 1 << 18 }
        greedy:start()
        assert(greedy.error.kind == 'memory', greedy.error.kind .. greedy.error.message)
        """,
        "observing everything": """
        local seen = {}
        local function note(_, change) seen[change.keyPath] = change.isPrior and { change.old } or { change.new, change.old } end
        for _, path in ipairs { 'isCancelled', 'isAsynchronous', 'isExecuting', 'isReady', 'queuePriority', 'completionBlock', 'name' } do
          o:observe(path, note)
        end
        o:observe('isFinished', { 'initial' }, note)
        o:observe('dependencies', { 'new', 'old', 'prior' }, note)
        o:observe('stored', { 'new', 'old' }, note)
        for _, path in ipairs { 'operations', 'operationCount', 'isSuspended', 'name', 'maxConcurrentOperationCount' } do
          q:observe(path, { 'new' }, note)
        end
        o.stored = { n }
        o:addDependency(Operation.new())
        o:cancel()
        q.isSuspended = true
        q:addOperation(o)
        q.isSuspended = false
        o:waitUntilFinished()
        if not (seen.isFinished and seen.dependencies and seen.stored and seen.isCancelled and seen.operations) then
          error 'not enough memory'
        end
        local ok, message = pcall(o.observe, o, 'isFinshed', function() end)
        assert(not ok and (message:find "did you mean 'isFinished'" or message == 'not enough memory'), message)
        """,
        "wrong use": """
        local function refused(expected, f, ...)
          local ok, message = pcall(f, ...)
          assert(not ok and (message:find(expected, 1, true) or message:find 'not enough memory'), message)
        end
        refused('', o.finish, o)
        refused('', o.fail, o, 'text')
        refused('dependency cycle', o.addDependency, o, o)
        refused('execution blocks', o.addExecutionBlock, o, print)
        refused('must be more than 0', opscript.every, 0, print)
        refused("there is no signal 'TREM' (did you mean 'TERM'?)", function() opscript.sh 'true':kill 'TREM' end)
        refused("unknown option 'imput'", opscript.process, { 'true', imput = 'text' })
        refused("unknown option 'nmae'", OperationQueue.new, { nmae = 'text' })
        refused("did you mean 'name'?", function() q.nmae = 'text' end)
        refused('cannot be assigned', function() o.result = 1 end)
        """,
        "a class with all its methods": """
        local Base = Operation:subclass 'Base'
        function Base:init(value) self.value = { value } end
        function Base:text() return tostring(self.value[1]) end
        function Base:cancel() self.marked = true Operation.cancel(self) end
        Base.shared = { n }
        local Derived = Base:subclass 'Derived'
        function Derived:init(value) Base.init(self, value) self.more = value end
        function Derived:start() self:finish(self:text(), self.shared[1], self.isAsynchronous) end
        local derived = Derived.new(n)
        q:addOperation(derived)
        derived:waitUntilFinished()
        if derived.error then error(derived.error.message, 0) end
        assert(derived.results[1] == tostring(n) and derived.results[2] == n and derived:isKindOf(Base) and not derived.marked)
        local cancelled = Derived.new(n)
        cancelled:cancel()
        assert(cancelled.marked and cancelled.isCancelled)
        local sent = q:addOperation(function(_, class) return class == Derived, Derived end, Derived)
        sent:waitUntilFinished()
        if sent.error then error(sent.error.message, 0) end
        assert(sent.result and sent.results[2] == Derived)
        local ok, message = pcall(function() Derived.strat = function() end end)
        assert(not ok and (message:find "did you mean 'start'" or message:find 'not enough memory'), message)
        """,
        "invocations without a result": """
        local object = { quiet = function() end }
        local void = opscript.InvocationOperation.new(object, 'quiet')
        void:start()
        if void.error then error(void.error.message, 0) end
        local ok, message = pcall(function() return void.result end)
        assert(not ok, 'no error')
        ok, message = pcall(opscript.InvocationOperation.new, object, 'loud')
        assert(not ok, 'no error')
        """,
        "programs": """
        local function kinds(t) return t.status, t.signal, t.stdout, t.stderr end
        local ended
        local shell = opscript.sh { 'cat; echo error >&2; exit 3', input = 'text', onExit = function(result) ended = result end }
        local result = shell:wait()
        assert(result.status == 3 and result.stdout == 'text' and result.stderr == 'error\\n' and shell.stderr == result.stderr)
        for _ = 1, 500 do if not ended then opscript.sleep(0.001) end end
        if not ended then error 'not enough memory' end
        assert(ended.status == 3)
        local sleeper = opscript.process { 'sleep', 2, stdout = 'null', stderr = '/dev/null', env = { A = 'b', HOME = false } }
        local wasRunning, early = sleeper.isRunning, sleeper:wait(0)
        sleeper:kill()
        assert(wasRunning and not early and sleeper:wait().signal == 'TERM' and not sleeper:kill 'KILL')
        local late = opscript.sh { 'sleep 100', timeout = 0.001 }
        local ok, message = pcall(late.wait, late)
        assert(not ok and (message:find 'sleep 100' or message == 'not enough memory'), message)
        """,
        "values that are sent": """
        local shared, cycle = { n }, { text = ('long'):rep(100) }
        cycle.cycle, cycle.list = cycle, { shared, shared, 2.5, true, math.mininteger }
        local count = 0
        local function add() count = count + 1 return count end
        local function get() return count end
        local class = setmetatable({ __name = 'class' }, { __call = function() return 'called' end })
        class.__index = class
        local deep = {}
        for i = 1, 300 do deep = { deep } end
        local added = q:addOperation(function(_, again, object)
          add()
          assert(again == cycle and object == getmetatable(object).object and class() == 'called')
          return cycle, get(), function() return add, get end, deep, string, table.insert, o, q, Operation, object
        end, cycle, (function() class.object = setmetatable({}, class) return class.object end)())
        added:waitUntilFinished()
        if added.error then error(added.error.message, 0) end
        local results = added.results
        assert(results[1].cycle == results[1] and results[1].list[1] == results[1].list[2] and results[2] == 1 and results[5] == string)
        assert(results[6] == table.insert and results[7] == o and results[8] == q and results[9] == Operation)
        local addAgain, getAgain = results[3]()
        assert(addAgain() == 2 and getAgain() == 2 and count == 0)
        """,
        "callbacks of an operation": """
        local log = {}
        local added = Operation.new { main = function() end, completionBlock = function(op) log[#log + 1] = { op.isFinished } end }
        local callback = opscript.after(0, function(timer) log[#log + 1] = { tostring(timer) } end)
        q:addOperation(added)
        added:waitUntilFinished()
        for _ = 1, 500 do if #log < 2 then opscript.sleep(0.001) end end
        if #log < 2 then error 'not enough memory' end
        """,
    ]
}
