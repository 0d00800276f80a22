import LuaBindings
import TestLimits
import TestSupport
import Testing

/// The options that `queue:map` gives to each input, its errors, and tables with named keys.
@Suite(.endsWithin(seconds: 60)) struct MapOptionTests {
    // MARK: options of each input

    @Test func eachInputIsTriedAgain() throws {
        try script(
            """
            local attempts = {}
            local function f(x)
                local op = Operation.current
                if op.attempt < x then error('attempt ' .. op.attempt, 0) end
                return op.attempt
            end
            for i, attempt in queue:map(f, { 1, 2, 3, 1 }, { retry = 3 }) do attempts[i] = attempt end
            assert(table.concat(attempts, ' ') == '1 2 3 1')
            local ok, problem = pcall(queue.forEach, queue, f, { 1, 3 }, { retry = { attempts = 2 } })
            assert(not ok and problem == 'attempt 2 (input 2: 3)', problem)
            assert(queue:reduce(f, math.max, { 1, 3, 2 }, { retry = 3 }) == 3)
            """)
    }

    @Test func eachInputHasItsTime() throws {
        try script(
            """
            local function f(x) if x == 2 then while true do end end return x end
            local results = {}
            for i, x, problem in queue:map(f, { 1, 2, 3 }, { timeout = 0.05, onError = 'collect' }) do
                results[i] = x or problem.kind
            end
            assert(table.concat(results, ' ') == '1 timeout 3')
            local ok, problem = pcall(queue.forEach, queue, f, { 2 }, { timeout = 0.01, name = 'slow' })
            assert(not ok and problem:find "%(input 1: 2%)$", problem)
            """)
    }

    @Test("Keys and resources hold for each input, however fast it is")
    func requirements() throws {
        try script(
            workers: 4,
            """
            opscript.resources { seat = 2 }
            local now, most = opscript.channel { capacity = 100 }, 0
            local function f(x)
                local op = Operation.current
                assert(op.needs.seat == 1 and (x % 10 > 0 or op.exclusive[1] == 'key'))
                now:send(1)
                local inside = #now
                now:receive()
                return inside
            end
            for _, inside in queue:map(f, function() most = most + 1 return most <= 50 and most or nil end, { needs = { seat = 1 }, exclusive = 'key' }) do
                assert(inside == 1)
            end
            local many, count = {}, 0
            for i = 1, 50 do many[i] = i * 10 + 1 end
            for _, inside in queue:map(f, many, { needs = { seat = 1 }, ordered = false }) do
                assert(inside <= 2)
                count = count + 1
            end
            assert(count == 50)
            """)
    }

    @Test("With memoize, the store has the result of each input")
    func memoized() throws {
        let folder = try StoreFolder()
        func run(_ inputs: String) throws -> String? {
            try folder.run(
                """
                local factor = 2
                local function double(x, y) return (y or x) * factor end
                local list = {}
                for key, x in queue:map(double, \(inputs), { memoize = true, inFlight = 1, name = 'double' }) do list[#list + 1] = key .. '=' .. x end
                table.sort(list)
                return table.concat(list, ' ')
                """
            ).first?.text
        }
        #expect(try run("{ 1, 2, 3 }") == "1=2 2=4 3=6")
        #expect(folder.explanations().map { $0.hasSuffix("skipped") } == [false, false, false])
        #expect(try run("{ 3, 4 }") == "1=6 2=8")
        #expect(folder.explanations().map { $0.hasSuffix("skipped") } == [true, false])
        #expect(try run("{ a = 1 }") == "a=2")
        #expect(try run("{ a = 1 }") == "a=2")
        #expect(folder.explanations().map { $0.hasSuffix("skipped") } == [false, true])
    }

    // MARK: errors

    @Test("An error names the input, also if inputs share an operation")
    func namedInputs() throws {
        try script(
            #"""
            local function message(list, f, options)
                local ok, problem = pcall(queue.forEach, queue, f or function() error('no', 0) end, list, options)
                assert(not ok)
                return problem
            end
            assert(message { true } == 'no (input 1: true)')
            assert(message { "a\n\"b\"\0" } == [[no (input 1: "a\n\"b\"\0")]], message { "a\n\"b\"\0" })
            assert(message { ('ä'):rep(30) } == 'no (input 1: "' .. ('ä'):rep(19) .. '…")' or message { ('ä'):rep(30) } == 'no (input 1: "' .. ('ä'):rep(20) .. '…")')
            assert(message { {} } == 'no (input 1: {})')
            assert(message { { 1, 'two', { 3 } } } == 'no (input 1: { 1, "two", {…} })')
            assert(message { { x = 1.5 } } == 'no (input 1: { x = 1.5 })' and message { { ['a b'] = 1 } } == 'no (input 1: { ["a b"] = 1 })')
            assert(message { { 1, 2, 3, 4, 5 } } == 'no (input 1: { 1, 2, 3, 4, … })')
            assert(message { url = 'x' } == 'no (input "url": "x")')
            assert(message { [2] = 'x' } == 'no (input 2: "x")')
            local many = {}
            for i = 1, 3000 do many[i] = -i end
            assert(message(many, function(x) if x == -2345 then error('no', 0) end end) == 'no (input 2345: -2345)')
            -- A value that is no text stays as it is, but for its field `message`.
            local problem = message({ 5 }, function() error { code = 7, message = 'wrong' } end)
            assert(problem.code == 7 and problem.message == 'wrong (input 1: 5)')
            assert(message({ 5 }, function() error(setmetatable({}, { __index = { message = 'x' } })) end).message == 'x')
            assert(message({ 5 }, function() error(42) end) == 42)
            problem = message({ 'false' }, function(program) return opscript.run { program } end)
            assert(tostring(problem):find '^false: exit status 1.*%(input 1: "false"%)$', tostring(problem))
            assert(message({ coroutine.create(print) }):find 'cannot send .*%(input 1: thread')
            """#)
    }

    @Test func errorsAreSkippedOrReplaced() throws {
        try script(
            """
            local inputs = {}
            for i = 1, 2000 do inputs[i] = i end
            local function f(x)
                if x % 500 == 1 then error('at ' .. x, 0) end
                return x
            end
            for _, ordered in ipairs { true, false } do
                local count, sum = 0, 0
                for i, x in queue:map(f, inputs, { onError = 'skip', ordered = ordered }) do
                    assert(i == x and i % 500 ~= 1)
                    count, sum = count + 1, sum + x
                end
                assert(count == 1996 and sum == 2000 * 2001 // 2 - 3004)
            end
            local total, failures = queue:forEach(f, inputs, { onError = 'skip' })
            assert(total == 2000 and next(failures) == nil)
            local seen = {}
            local function replace(problem, index, input)
                assert(index == input and problem.message == 'at ' .. index and problem.kind == 'error')
                seen[#seen + 1] = index
                if index > 1 then return -index, 'more' end
            end
            local replaced = 0
            for i, x, more in queue:map(f, inputs, { onError = replace }) do
                assert(more == nil and (x == i or x == nil and i == 1 or x == -i))
                if x ~= i then replaced = replaced + 1 end
            end
            assert(table.concat(seen, ' ') == '1 501 1001 1501' and replaced == 4)
            assert(queue:forEach(f, { 1, 2, 501 }, { onError = function(problem) seen[#seen + 1] = problem.message end }) == 3)
            assert(seen[6] == 'at 501')
            -- An error of the function ends the loop.
            local ok, problem = pcall(queue.forEach, queue, f, { 1, 2 }, { onError = function() error('enough', 0) end })
            assert(not ok and problem == 'enough')
            """)
    }

    // MARK: named keys

    @Test func aTableWithNamesGivesKeysAndValues() throws {
        try script(
            """
            local list = {}
            for i = 1, 2000 do list['key ' .. i] = i end
            list[false] = 0
            local count = 0
            for key, result in queue:map(function(key, value) return tostring(key) .. '=' .. value end, list, { ordered = false }) do
                assert(result == tostring(key) .. '=' .. list[key])
                count = count + 1
            end
            assert(count == 2001)
            local function fail(key, value) error(key .. value, 0) end
            local total, failures = queue:forEach(fail, { a = 1, n = 2 }, { onError = 'collect' })
            assert(total == 2 and failures.a.message == 'a1' and failures.n.message == 'n2')
            for key, x in queue:map(fail, { a = 1 }, { retry = 2, onError = function(problem, key, input) return key .. input end }) do
                assert(key == 'a' and x == 'a1')
            end
            assert(queue:reduce(function(key, value) return #key * value end, math.max, { a = 4, bbb = 3 }) == 9)
            -- Another map gets the values.
            local inner = queue:map(function(key, value) return value end, { a = 4 })
            for i, x in queue:map(function(x) return x + 1 end, inner) do assert(i == 1 and x == 5) end
            assert(queue:forEach(print, table.pack()) == 0)
            -- With an element 1, the table is an array.
            for i, x in queue:map(function(x, y) return y == nil and x end, { 'x', name = 5 }) do assert(i == 1 and x == 'x') end
            """)
    }

    // MARK: misuse

    @Test(arguments: [
        ("{ onError = 'stop' }", "onError must be \"raise\", \"skip\", \"collect\" or a function"),
        ("{ retry = 0 }", "retry must be an integer, 1 or more, got 0"),
        ("{ timeout = 'x' }", "timeout: number expected, got string"),
        ("{ memoize = 1 }", "memoize: boolean expected, got number"),
        ("{ needs = 5 }", "needs must be a table such as { gpu = 1, memory = \"2G\" }, got a number"),
        ("{ exclusive = 5 }", "exclusive must be a string or an array of strings, got a number"),
        ("{ conditions = {} }", "unknown option 'conditions'"),
    ])
    func misuse(_ options: String, _ message: String) throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run("queue:map(print, { 1 }, \(options))") }
            #expect(error?.message == "script:1: bad argument #3 to 'map' (\(message))")
        }
    }
}
