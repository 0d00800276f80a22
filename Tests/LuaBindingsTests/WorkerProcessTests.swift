import Glibc
import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Bodies in worker processes do what they do in threads.
@Suite struct WorkerProcessTests {
    @Test func aBodyReturnsItsResults() throws {
        try withProcesses { runtime in
            let operation = try runtime.operation(
                """
                local factor, t = 3, { list = { 1, 2 } }
                return queue:addOperation(function(op, b) return factor * b, t, ('x'):rep(20000), 1.5, nil, op, print end, 14)
                """)
            let results = try runtime.results(of: operation)
            #expect(results[0] == 42 && results[1]["list"][2] == 2 && results[3] == 1.5 && results[4] == .nil)
            #expect(results[2].text == String(repeating: "x", count: 20000))
            #expect(results[5].operation === operation)
        }
    }

    @Test func attemptsConditionsAndTheFunctionWhenRunThere() throws {
        try withProcesses { runtime in
            let operation = try runtime.operation(
                """
                local function process() return io.open('/proc/self/stat'):read 'n' end
                local op, worth = Operation.new { main = function(op)
                    if op.attempt < 3 then error { code = 'busy', process = process() } end
                    return process(), op.asked, op.attempt, op.attempts[1].value.process
                end }, { busy = true }
                op.retry = { attempts = 5, when = function(e) return worth[e.value.code] and e.value.process == process() end }
                op:addCondition(function(op) op.asked = process() return true end)
                queue:addOperation(op)
                local refused = Operation.new { conditions = { function() return false, 'not today' end } }
                queue:addOperation(refused):waitUntilFinished()
                assert(refused.error.kind == 'condition' and refused.error.message:find 'not today')
                return op
                """)
            let results = try runtime.results(of: operation)
            #expect(results[0].integer != Int(getpid()) && results[0] == results[3] && results[2] == 3 && results[1] != .nil)
        }
    }

    @Test func itRunsInAProcessThatTheNextOneUsesToo() throws {
        try withProcesses { runtime in
            let source = "return queue:addOperation(function() return io.open('/proc/self/stat'):read 'n' end)"
            let first = try runtime.results(of: runtime.operation(source)), second = try runtime.results(of: runtime.operation(source))
            #expect(first == second && first[0].integer != Int(getpid()))
        }
    }

    @Test func errorsHaveTheirValuesAndPlaces() throws {
        try withProcesses { runtime in
            try runtime.run(
                """
                local function failed(f) local op = queue:addOperation(f) op:waitUntilFinished() return op.error end
                local e = failed(function() error { code = 7 } end)
                assert(e.kind == 'error' and e.value.code == 7)
                e = failed(function()
                  local x = nil + 1
                end)
                assert(e.message:find '^s:5: attempt to perform arithmetic on a nil value' and e.traceback:find 's:5: in function <s:4>')
                e = failed(function() return coroutine.create(print) end)
                assert(e.message:find 'cannot send result 1 %(a coroutine%)', e.message)
                e = failed(function() queue.nmae = 1 end)
                assert(e.message:find "^s:10: .*did you mean 'name'%?", e.message)
                e = failed(function() error(setmetatable({}, { __tostring = function() return 'as text' end })) end)
                assert(e.message == 'as text')
                """, name: "=s")
        }
    }

    @Test func hostFunctionsAnswerAndThrow() throws {
        struct Refusal: Error, CustomStringConvertible { var description: String { "refused" } }
        try withProcesses { runtime in
            try runtime.register("echo") { $0 }
            try runtime.register("add") { (a: Int, b: Int) in a + b }
            try runtime.register("refuse") { _ in throw Refusal() }
            try runtime.register("later") { (text: String) async in text + "!" }
            let operation = try runtime.operation(
                """
                return queue:addOperation(function()
                  local t = echo(1, { 2, { k = 'v' } }, queue)
                  local a, b, c = echo(1, { 2, { k = 'v' } }, queue)
                  return a, b[2].k, c == queue, add(2, 3), pcall(refuse), later 'text', select(2, pcall(add, 'x', 1))
                end)
                """)
            let results = try runtime.results(of: operation)
            #expect(results[0..<4] == [1, "v", true, 5])
            #expect(results[4] == false)
            let refused = try runtime.operation("return queue:addOperation(function() return later 'text', refuse() end)")
            #expect { try runtime.results(of: refused) } throws: {
                ($0 as? OperationFailure)?.underlyingError is Refusal
            }
        }
    }

    private final class Counter: LuaObject {
        let count = Locked(0)
    }

    @Test func objectsOfTheHostAreReferences() throws {
        try withProcesses { runtime in
            var counter = LuaClass<Counter>("Counter")
            counter.function("new") { Counter() }
            counter.method("add") { (counter: Counter, number: Int) in counter.count.withLock { $0 += number } }
            counter.property("count", get: { counter in counter.count.withLock { $0 } })
            try runtime.register(counter)
            try runtime.run(
                """
                local mine = Counter.new()
                local op = queue:addOperation(function(op, c)
                  c:add(2)
                  local other = Counter.new()
                  other:add(5)
                  return c == mine, mine.count, other, tostring(c), pcall(function() return c.cuont end)
                end, mine)
                op:waitUntilFinished()
                if op.error then error(op.error.message, 0) end
                local r = op.results
                assert(r[1] and r[2] == 2 and r[3].count == 5 and r[4] == 'Counter' and mine.count == 2, r[2])
                assert(r[5] == false and r[6]:find "did you mean 'count'", r[6])
                """)
        }
    }

    @Test func outputGoesToTheHostInOrder() throws {
        let lines = Log<String>()
        try withProcesses({ $0.output = { lines.append(String(decoding: $0, as: UTF8.self)) } }) { runtime in
            try runtime.run(
                """
                queue:addOperation(function() for i = 1, 3 do print(i, { } ~= nil) end io.write('a', 1, '\\n') end):waitUntilFinished()
                print 'end'
                """)
        }
        #expect(lines.entries == ["1\ttrue\n", "2\ttrue\n", "3\ttrue\n", "a1\n", "end\n"])
    }

    @Test func preludesModulesAndPathsArrive() throws {
        let directory = try ModuleDirectory(["counted": "local M = { n = 5 } function M.get() return M.n end return M"])
        try withProcesses({ $0.prelude = "twice = function(x) return 2 * x end" }) { runtime in
            try runtime.run(directory.prelude)
            let operation = try runtime.operation(
                """
                opscript.prelude(function() thrice = function(x) return 3 * x end end)
                local counted = require 'counted'
                return queue:addOperation(function() return twice(2), thrice(2), counted.get(), require 'counted' == counted end)
                """)
            #expect(try runtime.results(of: operation) == [4, 6, 5, true])
        }
        try withProcesses({ $0.moduleLoader = { $0 == "own" ? "return { x = 'loaded' }" : nil } }) { runtime in
            let operation = try runtime.operation("return queue:addOperation(function() return require 'own'.x end)")
            #expect(try runtime.results(of: operation) == ["loaded"])
        }
    }

    @Test func hostsAddOperationsWithArguments() throws {
        try withProcesses(workers: 2) { runtime in
            let function = try runtime.function("local base = { 10 }; return function(op, a, t) return base[1] + a, t.k, op end")
            let operations = (1...20).map { LuaOperation(function, arguments: [.integer($0), ["k": "v"]]) }
            OperationQueue(engine: runtime.engine).addOperations(operations, waitUntilFinished: true)
            for (index, operation) in operations.enumerated() {
                let results = try runtime.results(of: operation)
                #expect(results[0] == .integer(11 + index) && results[1] == "v" && results[2].operation === operation)
            }
        }
    }

    @Test func callbacksOfABodyRunInAProcessToo() throws {
        let log = Log<String>()
        try withProcesses { runtime in
            try runtime.register("note") { arguments in
                log.append(arguments.compactMap(\.text).joined(separator: " "))
                return []
            }
            try runtime.setGlobal("pid", to: .integer(Int(getpid())))
            try runtime.run(
                """
                local op = queue:addOperation(function()
                  local prefix = 'the'
                  local inner = opscript.Operation.new(function() return 'result' end)
                  assert(inner.completionBlock == nil)
                  inner.completionBlock = function(op) note(prefix, op.result, tostring(io.open('/proc/self/stat'):read 'n' ~= pid)) end
                  assert(type(inner.completionBlock) == 'function')
                  inner:observe('isFinished', { 'new' }, function(_, change) note('finished', tostring(change.new)) end)
                  inner:start()
                  opscript.after(0, function(timer) note('timer', tostring(timer):match '^%a+') end)
                  opscript.sleep(0.01)
                  local program = opscript.process { 'true', onExit = function(result) note('exit', tostring(result.status)) end }
                  program:wait()
                  opscript.sleep(0.01)
                end)
                op:waitUntilFinished()
                if op.error then error(op.error.message, 0) end
                """)
            #expect(try runtime.finish().callbackErrorCount == 0)
        }
        #expect(Set(log.entries) == ["the result true", "finished true", "timer Timer", "exit 0"])
    }

    /// The things that a body in a process cannot do. Each message names the thing.
    @Test func whatIsNotAvailableSaysSo() throws {
        try withProcesses { runtime in
            try runtime.run(
                """
                local function refused(expected, f)
                  local op = queue:addOperation(f)
                  op:waitUntilFinished()
                  assert(op.error and op.error.message:find(expected, 1, true), op.error and op.error.message)
                end
                local words = 'is not available in an operation that runs in a worker process (Configuration.isolation)'
                refused("'subclass' " .. words, function() opscript.Operation:subclass 'Own' end)
                refused('opscript.prelude ' .. words, function() opscript.prelude(function() end) end)
                local M = { __transfer = function() return function() return 1 end end }
                refused('a metamethod would run in the host', function()
                  local object = setmetatable({}, M)
                  opscript.Operation.current.stored = object
                end)
                refused('cannot send', function() opscript.captures(function() return coroutine.running() end) local c = coroutine.create(print)
                  opscript.captures(function() return c end) end)
                """)
        }
    }

    @Test("A result that would run code in the host is an error there; another process rebuilds it")
    func resultsWithTransfer() throws {
        try withProcesses { runtime in
            try runtime.run(
                """
                local made = queue:addOperation(function()
                  return setmetatable({ 1 }, { __transfer = function(self) return table.pack, self[1], 2 end })
                end)
                made:waitUntilFinished()
                local ok, message = pcall(function() return made.result end)
                assert(not ok and tostring(message):find('a metamethod would run in the host', 1, true), message)
                local reader = queue:addOperation(function() return made.result.n end)
                reader:waitUntilFinished()
                assert(reader.result == 2, reader.error)
                """)
        }
    }

    @Test func metamethodsWithoutSourceOrWithAnInstructionLimitAreRefused() throws {
        try withProcesses({ $0.limits.operationInstructions = 100_000_000 }) { runtime in
            let operation = try runtime.operation(
                """
                return queue:addOperation(function(op)
                  local transfer = function() return function() return 1 end end
                  local stripped = load(string.dump(transfer, true))
                  local messages = {}
                  for i, f in ipairs { transfer, stripped } do
                    local _, message = pcall(function() op.stored = setmetatable({}, { __transfer = f }) end)
                    messages[i] = tostring(message)
                  end
                  op.stored = { 'plain', function() return messages end }
                  return op.stored[2]()[1], messages[1], messages[2]
                end)
                """)
            let texts = try runtime.results(of: operation).compactMap(\.text)
            #expect(texts.count == 3)
            for text in texts { #expect(text.contains("a metamethod would run in the host"), "\(text)") }
        }
    }

    private static let unavailable: Set = [
        // Refused: subclasses, preludes, __transfer in a call, freezing, and captures that cannot be sent.
        "a class", "a class with all its methods", "a prelude", "an object with __transfer", "a frozen value",
        "a frozen table read where it is", "captures",
        // The function of `lines` cannot be sent.
        "the lines of a program",
        // The error counts the operation queue and the function as arguments, too.
        "what cannot be sent",
        // Callbacks have copies of the variables of the body.
        "callbacks of an operation", "observing everything", "programs",
        // Assigns variables of the step, which are copies for the operations that it adds.
        "a function added",
        // Calls os.exit, which the host allows or not.
        "os.exit",
    ]

    @Test("A body in a process can do", arguments: AllocationSteps.all.keys.filter { !unavailable.contains($0) }.sorted())
    func aBodyCanDo(name: String) throws {
        let folder = try StoreFolder()
        try withProcesses(workers: 2, { $0.store = Runtime.Store(directory: "\(folder.path)/store") }) { runtime in
            try AllocationSteps.registerFunctions(in: runtime)
            let operation = try runtime.operation(
                """
                n = 7
                function helper(a) return a and a[1] end
                return queue:addOperation(function(_, text)
                  local _ = helper  -- which the text may use
                  o, q = Operation.new(function() return n end), OperationQueue.new()
                  assert(load(text, '=step'))()
                  q.isSuspended = false
                end, ...)
                """, arguments: [.string(try #require(AllocationSteps.all[name]))])
            #expect(runtime.outcome(of: operation) == "ok")
        }
    }
}
