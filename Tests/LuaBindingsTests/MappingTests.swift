import LuaBindings
import Testing

/// `queue:map`, `queue:forEach`, `queue:reduce`, `opscript.lines` and `opscript.waitForAny`.
@Suite struct MappingTests {
    @Test func resultsComeInTheOrderOfTheInputs() throws {
        try script(
            """
            local expected = 0
            for i, square in queue:map(function(x) return x * x end, setmetatable({}, {
              __len = function() return 5000 end, __index = function(_, i) return i end })) do
              expected = expected + 1
              assert(i == expected and square == i * i)
            end
            assert(expected == 5000)
            for i in queue:map(print, {}) do error 'there is none' end
            """)
    }

    @Test func nilsKeepTheirPlaces() throws {
        try script(
            """
            local results = {}
            for i, x in queue:map(function(x) return x end, { 1, nil, 3, nil, 5 }) do results[i] = tostring(x) end
            assert(table.concat(results, ' ') == '1 nil 3 nil 5')
            for i, x, y in queue:map(function() return 1, 2 end, { 0 }) do assert(x == 1 and y == nil) end
            """)
    }

    @Test func unorderedResultsComeAsTheyAreThere() throws {
        try script(
            """
            local gate = Operation.new { asynchronous = true, main = function() end }
            gate:start()
            local order = {}
            local function f(x)
              if x == 1 then gate:waitUntilFinished() end
              return x
            end
            for i, x in queue:map(f, { 1, 2, 3 }, { ordered = false }) do
              assert(i == x)
              order[#order + 1] = i
              if #order == 2 then gate:finish() end
            end
            assert(order[3] == 1)
            """)
    }

    @Test func onlySomeInputsAreTakenAhead() throws {
        try script(
            """
            local taken = 0
            local function inputs() taken = taken + 1 return taken end
            for i, x in queue:map(function(x) return x end, inputs) do
              if i == 30000 then break end
            end
            assert(taken < 300000)
            taken = 0
            for i in queue:map(function(x) opscript.sleep(0.002) end, inputs, { inFlight = 3 }) do
              assert(taken <= i + 3)
              if i == 10 then break end
            end
            queue:waitUntilAllOperationsAreFinished()
            """)
    }

    @Test func leavingTheLoopCancelsTheRest() throws {
        try script(
            """
            local log = Operation.new()
            local function f(x)
              local op = Operation.current
              while x == 1 and not log.begun do opscript.sleep(0.001) end
              log.begun = true
              while x > 1 and not op.isCancelled do opscript.sleep(3600) end
              if x > 1 then log.woken = x end
              if x > 2 then error 'nobody asks for it' end
            end
            local function run(inFlight)
              local x = 0
              log.begun = nil
              for i in queue:map(f, function() x = x + 1 return x end, { inFlight = inFlight }) do break end
              queue:waitUntilAllOperationsAreFinished()
            end
            run(2)
            assert(log.woken == 2)
            run(4)
            """)
    }

    @Test func anErrorIsRaisedInPlaceOfTheResult() throws {
        try script(
            """
            local thrown, seen = { code = 404 }, {}
            local function f(x)
              if x == 3 then error(thrown) end
              return x
            end
            local ok, problem = pcall(function()
              for i, x in queue:map(f, { 1, 2, 3, 4, 5 }) do seen[#seen + 1] = x end
            end)
            assert(not ok and problem.code == 404 and #seen == 2)
            ok, problem = pcall(queue.forEach, queue, function() error 'with a place' end, { 1 })
            assert(not ok and problem:find '^script:%d+: with a place %(input 1: 1%)$')
            ok, problem = pcall(queue.reduce, queue, f, math.max, { 1, 3 })
            assert(not ok and problem.code == 404)
            """)
    }

    @Test func errorsAreCollectedIfThatIsAsked() throws {
        try script(
            """
            local inputs = {}
            for i = 1, 3000 do inputs[i] = i end
            local function f(x)
              if x % 1000 == 0 then error('at ' .. x, 0) end
              return -x
            end
            local count, failures = 0, {}
            for i, x, problem in queue:map(f, inputs, { onError = 'collect' }) do
              count = count + 1
              assert(i == count and x == (i % 1000 ~= 0 and -i or nil))
              if problem then failures[#failures + 1] = problem.message end
            end
            assert(count == 3000 and table.concat(failures, ' ') == 'at 1000 at 2000 at 3000')
            local total, errors = queue:forEach(f, inputs, { onError = 'collect' })
            assert(total == 3000 and errors[1000].message == 'at 1000' and errors[3000].kind == 'error')
            errors[1000] = nil
            errors[2000] = nil
            errors[3000] = nil
            assert(next(errors) == nil)
            """)
    }

    @Test func whatCannotBeSentFailsAlone() throws {
        try script(
            """
            local inputs = {}
            for i = 1, 500 do inputs[i] = i == 400 and coroutine.create(print) or i end
            for i, x, problem in queue:map(function(x) return x end, inputs, { onError = 'collect' }) do
              assert((x == i) == (i ~= 400))
              if i == 400 then assert(problem.message:find 'cannot send') end
            end
            local function f(x) return x == 400 and coroutine.create(print) or x end
            local function numbers(count)
              local n = 0
              return function() if n < count then n = n + 1 return n end end
            end
            local good = 0
            for i, x, problem in queue:map(f, numbers(500), { onError = 'collect' }) do
              if i == 400 then assert(x == nil and problem.message:find 'cannot send') else assert(x == i) good = good + 1 end
            end
            assert(good == 499)
            local total, failures = queue:forEach(f, { 1, 2, 400, 3 }, { onError = 'collect' })
            assert(total == 4 and next(failures) == nil)
            assert(not pcall(queue.reduce, queue, f, function(a) return a end, { 400, 1, 2 }))
            local last
            local ok, problem = pcall(function() for i, x in queue:map(f, function() last = (last or 0) + 1 return last end) do end end)
            assert(not ok and problem:find 'cannot send')
            local captured = coroutine.create(print)
            ok, problem = pcall(queue.map, queue, function() return captured end, {})
            assert(not ok and problem:find "cannot send upvalue 'captured'")
            """)
    }

    @Test func anErrorOfTheIteratorComesAfterTheResults() throws {
        try script(
            """
            for _, isOrdered in ipairs { true, false } do
              local k, count = 0, 0
              local function inputs()
                k = k + 1
                if k == 100 then error 'no more' end
                return k
              end
              local ok, problem = pcall(function()
                for i in queue:map(function(x) return x end, inputs, { ordered = isOrdered }) do count = count + 1 end
              end)
              assert(not ok and problem:find ': no more$' and count == 99)
              local list = setmetatable({}, { __len = function() return 200 end, __index = inputs })
              k = 0
              ok, problem = pcall(queue.forEach, queue, function(x) return assert(x) end, list, { ordered = isOrdered })
              assert(not ok and problem:find ': no more$' and k == 100)
            end
            """)
    }

    /// An upvalue belongs to the copy that one operation has, so it counts the inputs of that operation.
    @Test func fastInputsShareOperationsAndSlowOnesDoNot() throws {
        try script(
            """
            local number = 0
            local function f(x)
              number = number + 1
              if x > 20000 then opscript.sleep(0.011) end
              return number
            end
            local inputs, largest = {}, 0
            for i = 1, 20010 do inputs[i] = i end
            for i, n in queue:map(f, inputs) do
              largest = math.max(largest, n)
              if i > 20001 then assert(n == 1) end
            end
            assert(largest > 1 and number == 0)
            """)
    }

    @Test func operationsMapAsWell() throws {
        try script(
            workers: 1,
            """
            local function add(a, b) return a + b end
            local function row(x)
              return OperationQueue.current:reduce(function(y) return x * y end, add, { 1, 2, 3 })
            end
            local op = queue:addOperation(function()
              local here = OperationQueue.current
              local total = 0
              for _, sum in here:map(row, { 1, 2, 3 }) do total = total + sum end
              return total
            end)
            op:waitUntilFinished()
            assert(op.result == 36)
            """)
    }

    @Test func anOperationThatIsCancelledStopsMapping() throws {
        try script(
            """
            local op = queue:addOperation(function(op)
              local inner = OperationQueue.new()
              local function wait() while not Operation.current.isCancelled do opscript.sleep(3600) end end
              op.isMapping = true
              for _ in inner:map(wait, { 1, 2, 3 }) do end
            end)
            while not op.isMapping do opscript.sleep(0.001) end
            op:cancel()
            op:waitUntilFinished()
            assert(op.error.message:find "the operation that waits for 'map' was cancelled")
            """)
    }

    @Test func cancellingTheOperationsEndsTheMap() throws {
        try script(
            """
            queue.isSuspended = true
            local function inputs()
              queue:cancelAllOperations()
              queue.isSuspended = false
              return nil
            end
            local first = true
            local ok, problem = pcall(function()
              for _ in queue:map(function() end, function()
                if not first then return inputs() end
                first = false
                return 1
              end) do end
            end)
            assert(not ok and problem == "the operations of 'map' were cancelled")
            local function cancel() OperationQueue.current:cancelAllOperations() end
            ok, problem = pcall(queue.forEach, queue, cancel, { 1, 2, 3 }, { inFlight = 1 })
            assert(not ok and problem == "the operations of 'forEach' were cancelled")
            """)
    }

    @Test func aMapReadsFromAnother() throws {
        try script(
            """
            local function double(x) return x and 2 * x end
            local results = {}
            for i, x in queue:map(double, (queue:map(double, { 1, nil, 3 }))) do results[i] = tostring(x) end
            assert(table.concat(results, ' ') == '4 nil 12')
            local function fail(x) error('on ' .. x, 0) end
            local ok, problem = pcall(queue.forEach, queue, double, (queue:map(fail, { 7 }, { onError = 'collect' })))
            assert(not ok and problem == 'on 7')
            """)
    }

    @Test func coroutinesMapAndAreUsedByMaps() throws {
        try script(
            """
            local function f(n)
              local last
              for x in coroutine.wrap(function() for i = 1, n do coroutine.yield(i) end end) do last = x end
              return last
            end
            local inputs = coroutine.wrap(function() for i = 1, 5 do coroutine.yield(i) end end)
            local results = {}
            for x in coroutine.wrap(function() for _, x in queue:map(f, inputs) do coroutine.yield(x) end end) do results[#results + 1] = x end
            assert(table.concat(results, ' ') == '1 2 3 4 5')
            local steps = coroutine.wrap(function()
              return queue:reduce(f, function(a, b) coroutine.yield 'between' return a + b end, { 1, 2 }, { initial = 0 })
            end)
            while steps() == 'between' do end
            """)
    }

    @Test func reduceCombinesInOrder() throws {
        try script(
            """
            local words, expected = {}, {}
            for i = 1, 2000 do words[i] = i end
            local text = queue:reduce(tostring, function(a, b) return a .. ' ' .. b end, words)
            assert(text == table.concat(words, ' '))
            assert(queue:reduce(tostring, math.max, {}) == nil)
            assert(queue:reduce(tonumber, math.max, {}, { initial = 7 }) == 7)
            assert(queue:reduce(tonumber, math.max, { 1, 2 }, { initial = 7, ordered = false }) == 7)
            """)
    }

    @Test func linesOfFilesAreInputs() throws {
        try script(
            """
            local path = os.tmpname()
            local file = assert(io.open(path, 'w'))
            file:write('one\\n\\nthree')
            file:close()
            local lengths = {}
            for i, n in queue:map(string.len, opscript.lines(path)) do lengths[i] = n end
            assert(table.concat(lengths, ' ') == '3 0 5')
            local read = {}
            for line in opscript.lines(path) do read[#read + 1] = line end
            assert(table.concat(read, ',') == 'one,,three')
            local lines = opscript.lines(path)
            for i in queue:map(string.len, lines) do break end
            assert(lines() == nil)
            os.remove(path)
            local ok, problem = pcall(opscript.lines, path)
            assert(not ok and problem:find 'cannot read .*: No such file')
            """)
    }

    @Test func theMainQueueMapsInTheScriptsState() throws {
        try script(
            """
            local count = 0
            local function f(x)
              count = count + 1
              return x
            end
            for i, x in OperationQueue.main:map(f, { 1, 2 }) do assert(i == x and count >= i) end
            assert(count == 2)
            """)
    }

    /// The first body that maps compiles the functions, for all later bodies in that worker.
    @Test func whatABodyDoesToLibrariesDoesNotReachOtherMaps() throws {
        try script(
            workers: 1,
            """
            local function map()
              local sum = 0
              for _, x in OperationQueue.current:map(function(x) return x end, { 1, 2, 3 }) do sum = sum + x end
              return sum
            end
            local first = queue:addOperation(function()
              local function refuse() error 'changed' end
              for _, name in ipairs { 'move', 'insert', 'remove' } do table[name] = refuse end
              pcall, type, opscript.now, opscript.waitForAny = refuse, refuse, refuse, refuse
              return map()
            end)
            queue:waitUntilAllOperationsAreFinished()
            local second = queue:addOperation(map)
            queue:waitUntilAllOperationsAreFinished()
            assert(first.result == 6 and second.result == 6)
            """)
    }

    @Test func aSandboxWithoutFilesHasNoLines() throws {
        var configuration = Runtime.Configuration()
        configuration.sandbox = .untrusted
        let runtime = try Runtime(configuration)
        defer { _ = runtime.close(deadline: .seconds(30)) }
        #expect(try runtime.run("return select(2, pcall(opscript.lines, '/etc/passwd'))") == ["files are not available here"])
        #expect(try runtime.run("return opscript.OperationQueue.new():reduce(tonumber, math.max, { 1, 2 })") == [2])
    }

    @Test func memoryDoesNotGrowWithTheNumberOfInputs() throws {
        try script(
            """
            local function peak(count)
              local x, most = 0, 0
              local function inputs()
                x = x + 1
                if x % 1000 == 0 then most = math.max(most, collectgarbage 'count') end
                return x <= count and x or nil
              end
              collectgarbage()
              local before = collectgarbage 'count'
              assert(queue:forEach(function() end, inputs) == count)
              return most - before
            end
            peak(10000)
            assert(peak(1000000) < 50000)
            """)
    }

    @Test("The values of a generic for are a list; the iterator is closed at the end and when the loop is left")
    func valuesOfAFor() throws {
        try script(
            """
            local function results(...)
              local list = {}
              for _, result in queue:map(function(x) return x end, ...) do list[#list + 1] = tostring(result) end
              return table.concat(list, ",")
            end
            assert(results(ipairs { "a", false, "b" }) == "a,false,b")
            assert(results(("a b"):gmatch "%a") == "a,b" and results(table.pack()) == "")
            local path = os.tmpname()
            io.open(path, "w"):write("one\\ntwo\\n"):close()
            assert(results(io.lines(path)) == "one,two")
            local closed = 0
            local function counting(limit)
              local closer = setmetatable({}, { __close = function() closed = closed + 1 end })
              return function(last, n) if n < last then return n + 1 end end, limit, 0, closer
            end
            assert(results(counting(3)) == "1,2,3" and closed == 1)
            for i in queue:map(function(x) return x end, counting(1 << 40)) do if i == 5 then break end end
            assert(closed == 2)
            assert(queue:forEach(function() end, ipairs { 1, 2 }) == 2)
            assert(queue:reduce(tonumber, math.max, ipairs { "1", "3", "2" }) == 3)
            assert(results(setmetatable({ count = 0 }, { __len = function() return 0 end })) == "")
            os.remove(path)
            """)
    }

    @Test func misuseIsAnError() throws {
        try script(
            """
            local function refused(message, f)
              local ok, problem = pcall(f)
              assert(not ok and problem:find(message, 1, true) and problem:find '^script:', problem)
            end
            refused("bad argument #1 to 'map' (function expected, got number)", function() queue:map(1, {}) end)
            refused("bad argument #2 to 'map' (table or iterator function expected, got nil)", function() queue:map(print) end)
            refused("bad argument #2 to 'map' ('pairs' gives keys and values: ", function() queue:map(print, pairs { a = 1 }) end)
            refused("bad argument #3 to 'forEach' (unknown option 'inflight')", function() queue:forEach(print, {}, { inflight = 1 }) end)
            refused("bad argument #3 to 'map' (inFlight must be an integer of at least 1)", function()
              queue:map(print, {}, { inFlight = 0 })
            end)
            refused("bad argument #4 to 'reduce' (unknown option 'onError')", function()
              queue:reduce(print, print, {}, { onError = 'collect' })
            end)
            refused("bad argument #2 to 'reduce' (function expected, got table)", function() queue:reduce(print, {}) end)
            refused("call 'map' with ':', as in queue:map(...)", function() queue.map(print, {}) end)
            refused("bad argument #1 to 'lines' (string expected, got nil)", function() opscript.lines() end)
            local held = OperationQueue.new { isSuspended = true }
            local ok, problem = pcall(held.forEach, held, print, { 1 })
            assert(problem:find "^this wait can never end: 'forEach' is in an unnamed queue, which is suspended")
            held.isSuspended = false
            """)
    }

    @Test func waitingForAnyReturnsTheFirstThatHasFinished() throws {
        try script(
            """
            local gate = Operation.new { asynchronous = true, main = function() end }
            gate:start()
            local quick = queue:addOperation(function() end)
            assert(opscript.waitForAny { gate, quick } == quick)
            assert(opscript.waitForAny({ gate }, 0) == nil)
            gate:finish()
            assert(opscript.waitForAny { gate, quick } == gate)
            local ok, problem = pcall(opscript.waitForAny, {})
            assert(not ok and problem:find 'an operation to wait for is missing')
            assert(opscript.workerCount() == 2)
            """)
    }
}
