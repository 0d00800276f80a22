import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Operations with `memoize`: the store has their results.
@Suite struct StoreTests {
    private static let square =
        "local op = perform { name = 'square', memoize = true, arguments = { 7 }, main = function(op, n) note('ran') return n * n, { n } end }"

    @Test("Finished work is skipped in the next run, and its results are there")
    func finishedWork() throws {
        let folder = try StoreFolder()
        let script = Self.square + " return op.result, op.results[2][1], op.isSkipped, op:whyRun(), op.isFinished"
        #expect(try folder.run(script) == [49, 7, false, "never ran", true])
        #expect(try folder.run(workers: 1, script) == [49, 7, true, .nil, true])
        #expect(folder.notes() == ["ran"])
        #expect(folder.explanations() == ["square: runs: never ran", "square: skipped"])
    }

    @Test("Nothing of an operation that is skipped differs for those who watch it")
    func observers() throws {
        let folder = try StoreFolder()
        let script = """
            local log = {}
            local op = Operation.new { memoize = true, main = function() return 1 end }
            op:observe('isFinished', function(op, change) log[#log + 1] = 'finished ' .. tostring(op.isSkipped) end)
            op.completionBlock = function(op) log[#log + 1] = 'completed ' .. op.result end
            local next = Operation.new { dependencies = { op }, main = function() return op.result + 1 end }
            queue:addOperation(next) queue:addOperation(op)
            next:waitUntilFinished()
            queue:waitUntilAllOperationsAreFinished()
            return table.concat(log, ', '), next.result, queue.progress.fractionCompleted
            """
        #expect(try folder.run(script) == ["finished false, completed 1", 2, 1.0])
        #expect(try folder.run(script) == ["finished true, completed 1", 2, 1.0])
    }

    @Test(
        "The reason to run names what has changed",
        arguments: [
            ("{ 7 }", "{ 8 }", "argument 1 changed"),
            ("n * n", "n + n", "function 'main' changed in line 1"),
            ("'square'", "'other'", "never ran"),
        ])
    func reasons(from: String, to: String, reason: String) throws {
        let folder = try StoreFolder()
        try folder.run(Self.square)
        #expect(
            try folder.run(Self.square.replacing(from, with: to) + " return op:whyRun()").first?.text == reason || reason == "never ran")
        #expect(try folder.run(Self.square + " return op.isSkipped") == [true])
    }

    @Test("Captured values, globals and versions count")
    func captures() throws {
        let folder = try StoreFolder()
        let script = """
            local list = { 1, 2 }
            local function add(t) local sum = 0 for _, n in ipairs(t) do sum = sum + n end return sum end
            factor = 3
            local op = perform { memoize = true, version = 1, main = function() return add(list) * factor end }
            return op.result, op:whyRun()
            """
        func run(_ script: String) throws -> [LuaValue] { try folder.run(script) }
        #expect(try run(script) == [9, "never ran"])
        #expect(try run(script) == [9, .nil])
        #expect(try run(script.replacing("{ 1, 2 }", with: "{ 1, 3 }")) == [12, "upvalue 'list' of function 'main' changed"])
        #expect(try run(script.replacing("factor = 3", with: "factor = 4")) == [12, "global 'factor' changed"])
        #expect(try run(script.replacing("sum + n", with: "sum - n")) == [-9, "function 'add' changed in line 2"])
        #expect(try run(script.replacing("version = 1", with: "version = { 2 }")) == [9, "version changed"])
        #expect(try run("\n\n" + script) == [9, .nil])
    }

    @Test("The results of dependencies count, and an operation that did the same work again does not")
    func dependencies() throws {
        let folder = try StoreFolder()
        let script = """
            local a = Operation.new { name = 'a', main = function() note('a') return { 1 } end }
            local b = Operation.new { name = 'b', memoize = true, dependencies = { a }, main = function() note('b') return a.result[1] + 1 end }
            queue:addOperations({ a, b }, true)
            return b.result, b:whyRun()
            """
        #expect(try folder.run(script) == [2, "never ran"])
        #expect(try folder.run(script) == [2, .nil])
        #expect(folder.notes() == ["a", "b", "a"])
        #expect(try folder.run(script.replacing("{ 1 }", with: "{ 2 }")) == [3, "result of 'a' changed"])
        #expect(try folder.run(script.replacing("return { 1 }", with: "error('no')")).last == "result of 'a' changed")
    }

    @Test("An operation that is captured must have finished")
    func unfinishedCaptures() throws {
        let folder = try StoreFolder()
        let values = try folder.run(
            """
            local a = Operation.new { name = 'a', main = function() return 1 end }
            local b = perform { name = 'b', memoize = true, main = function() return a.result end }
            queue:addOperation(a)
            return b.error.message
            """)
        #expect(
            values == [
                "upvalue 'a' of function 'main' is 'a', which has not finished, so its result cannot be part of the key: add it to the dependencies"
            ])
    }

    @Test("Operations in results count with their results, up to a depth")
    func operationsInResults() throws {
        let folder = try StoreFolder()
        let script = """
            local last = perform { main = function() return 7 end }
            for i = 2, depth do
                local before, other = last, perform { main = function() return 1 end }
                last = perform { main = function() return { before, before, other } end }
            end
            local op = perform { memoize = true, main = function() local op = last while type(op.result) == 'table' do op = op.result[1] end return op.result end }
            return op.result, op:whyRun(), op.error and op.error.message:match '[^,]*$'
            """
        func run(_ depth: Int, _ value: Int) throws -> [LuaValue] {
            try folder.run("local depth = \(depth) " + script.replacing("return 7", with: "return \(value)"))
        }
        #expect(try run(30, 7) == [7, "never ran", .nil])
        #expect(try run(30, 7) == [7, .nil, .nil])
        #expect(try run(30, 8) == [8, "result of an unnamed Operation changed", .nil])
        #expect(try run(100, 7) == [.nil, .nil, " more than 64 of them in turn"])
    }

    @Test("What has no stable key is one error with its path")
    func unstableCaptures() throws {
        let folder = try StoreFolder()
        let values = try folder.run(
            """
            local t = { log = { opscript.after(100, function() end) } }
            local op = perform { memoize = true, main = function() return t end }
            t.log[1]:cancel()
            return op.error.message
            """)
        #expect(values.first?.text?.hasPrefix("upvalue 't' of function 'main'.log[1] is a timer, which has no key") ?? false)
    }

    @Test("A queue counts by its name, and the operation itself not at all")
    func objects() throws {
        let folder = try StoreFolder()
        let script = """
            local op
            op = Operation.new { memoize = true, main = function(self) return queue.name, op == self end }
            queue:addOperation(op):waitUntilFinished()
            return op.result, op.results[2], op:whyRun()
            """
        #expect(try folder.run(script) == ["test", true, "never ran"])
        #expect(try folder.run(script) == ["test", true, .nil])
    }

    @Test("Work that failed, was stopped or was cancelled is done again")
    func failures() throws {
        let folder = try StoreFolder()
        let script = """
            local failed = perform { name = 'fails', memoize = true, main = function() note('fails') error('no') end }
            local stopped = perform { name = 'stops', memoize = true, timeout = 0.01, main = function() note('stops') while true do end end }
            local cancelled = perform { name = 'cancels', memoize = true, main = function(op) note('cancels') op:cancel() return 1 end }
            return failed.error ~= nil, stopped.error.kind, cancelled.isCancelled
            """
        for _ in 0..<2 { #expect(try folder.run(script) == [true, "timeout", true]) }
        #expect(folder.notes() == ["fails", "stops", "cancels", "fails", "stops", "cancels"])
    }

    @Test("An operation that is tried again asks once for each attempt, and records the one that succeeds")
    func attempts() throws {
        let folder = try StoreFolder()
        let script = """
            local op = perform { memoize = true, retry = 3, main = function(op)
                note('ran')
                op.tries = op.attempt
                if op.attempt < 3 then error('no') end
                return op.tries
            end }
            return op.result, op.isSkipped
            """
        #expect(try folder.run(script) == [3, false])
        #expect(try folder.run(script) == [3, true])
        #expect(folder.notes().count == 3)
    }

    @Test("Results that cannot be stored are not, and that is said")
    func unstorableResults() throws {
        let folder = try StoreFolder()
        let script =
            "local op = perform { name = 'f', memoize = true, main = function() note('ran') return function() return 5 end end } return op.result()"
        for _ in 0..<2 { #expect(try folder.run(script) == [5]) }
        #expect(folder.notes().count == 2)
        #expect(
            folder.explanations() == [
                "f: runs: never ran", "f: not recorded: its results contain a function, which cannot be stored",
                "f: runs: its results contain a function, which cannot be stored",
                "f: not recorded: its results contain a function, which cannot be stored",
            ])
    }

    @Test("What a body stores in its operation comes back, and what was stored before counts")
    func storage() throws {
        let folder = try StoreFolder()
        let script = """
            local op = Operation.new { name = 'op', memoize = true, main = function(op)
                note('ran')
                op.sum, op.gone, op.list = op.base + 1, nil, { 1, { 2 } }
            end }
            op.base, op.gone = 4, true
            queue:addOperation(op):waitUntilFinished()
            local next = perform { memoize = true, dependencies = { op }, main = function() return op.sum * 2 end }
            return op.sum, op.gone, op.list[2][1], op.base, op.isSkipped, next.result, next.isSkipped
            """
        #expect(try folder.run(script) == [5, .nil, 2, 4, false, 10, false])
        #expect(try folder.run(script) == [5, .nil, 2, 4, true, 10, true])
        #expect(try folder.run(script.replacing("= 4, true", with: "= 5, true")) == [6, .nil, 2, 5, false, 12, false])
        #expect(folder.explanations().suffix(2).first == "op: runs: 'base' of the operation changed")
        let refused = "local op = perform { name = 'op', memoize = true, main = function(op) op.f = print end } return op.isSkipped"
        for _ in 0..<2 { #expect(try folder.run(refused) == [false]) }
        #expect(
            folder.explanations().last
                == "op: not recorded: 'f', which it has stored in itself, contains a part of a module, which cannot be stored")
    }

    @Test("Modules count with the contents of their files, and those that they require as well")
    func modules() throws {
        let folder = try StoreFolder()
        folder["outer"] = nil
        folder["outer.lua"] = "local inner = require 'inner'; return { f = function() return inner.n end }"
        folder["inner.lua"] = "return { n = 1 }"
        let script =
            "local outer = require 'outer'; local op = perform { memoize = true, main = function() return outer.f() end } return op.result, op:whyRun()"
        let late = "local op = perform { memoize = true, main = function() return require('outer').f() end } return op.result, op:whyRun()"
        for script in [script, late] {
            folder["inner.lua"] = "return { n = 1 }"
            #expect(try folder.run(script) == [1, "never ran"] || script == late)
            #expect(try folder.run(script) == [1, .nil])
            folder["inner.lua"] = "return { n = 2 }"
            #expect(try folder.run(script) == [2, "module 'inner' changed"])
        }
        folder["outer.lua"] = "return { f = function() return 3 end }"
        #expect(try folder.run(script) == [3, "module 'outer' changed, module 'inner' is gone"])
    }

    @Test("What the script has changed in modules, and the loaders of package.preload, count")
    func changedModules() throws {
        let folder = try StoreFolder()
        folder["log.lua"] = "return { level = 1 }"
        let script =
            "local op = perform { memoize = true, main = function() return log.level, require 'made' end } return op.result, op.results[2], op:whyRun()"
        func run(level: Int, made: Int) throws -> [LuaValue] {
            try folder.run("package.preload.made = function() return \(made) end log = require 'log' log.level = \(level) \(script)")
        }
        #expect(try run(level: 1, made: 1) == [1, 1, "never ran"])
        #expect(try run(level: 1, made: 1) == [1, 1, .nil])
        #expect(try run(level: 2, made: 1) == [2, 1, "changed modules is new"])
        #expect(try run(level: 2, made: 1) == [2, 1, .nil])
        #expect(try run(level: 2, made: 2) == [2, 2, "package.preload changed"])
    }

    @Test("Modules of the host's loader count with their sources")
    func modulesOfTheHost() throws {
        let folder = try StoreFolder()
        let script =
            "local m = require 'host'; local op = perform { memoize = true, main = function() return m.n() end } return op.result, op:whyRun()"
        func run(_ source: String) throws -> [LuaValue] {
            try folder.run(script) { $0.moduleLoader = { $0 == "host" ? source : nil } }
        }
        #expect(try run("return { n = function() return 1 end }") == [1, "never ran"])
        #expect(try run("return { n = function() return 1 end }") == [1, .nil])
        #expect(try run("return { n = function() return 2 end }") == [2, "module 'host' changed"])
    }

    @Test("Classes count with their methods")
    func classes() throws {
        let folder = try StoreFolder()
        let script = """
            local Image = Operation:subclass 'Image'
            function Image:area() return 6 end
            function Image:main() return self.x end
            local image = Image.new()
            image.x = 7
            queue:addOperation(image):waitUntilFinished()
            local op = perform { memoize = true, main = function() return image.result * image:area(), Image ~= nil end }
            return op.result, op:whyRun()
            """
        #expect(try folder.run(script) == [42, "never ran"])
        #expect(try folder.run(script) == [42, .nil])
        #expect(try folder.run(script.replacing("return 6", with: "return 5")) == [35, "function 'Image.area' changed in line 2"])
        #expect(try folder.run(script.replacing("image.x = 7", with: "image.x = 8")) == [48, "result of an unnamed Image changed"])
    }

    @Test("An operation that runs in the script's own state cannot ask, because anything in that may count")
    func mainState() throws {
        let folder = try StoreFolder()
        let script = """
            local a = Operation.new { name = 'a', memoize = true, main = function() return 4 end }
            opscript.OperationQueue.main:addOperation(a):waitUntilFinished()
            local b = Operation.new { name = 'b', memoize = true, main = function() return 5 end }
            b:start()
            return a.error.message, b.error.message
            """
        for text in try folder.run(script) {
            #expect(text.text?.contains("add it to a queue other than the main queue") == true, "\(text)")
        }
    }

    @Test("What an error and the members of a group contain counts")
    func errorsAndGroups() throws {
        let folder = try StoreFolder()
        let script = """
            local dep = Operation.new { name = 'dep', main = function() error { code = 1 } end }
            queue:addOperation(dep):waitUntilFinished()
            local _ = dep.error
            local group = opscript.GroupOperation.new { name = 'group', operations = { function() return 10 end } }
            queue:addOperation(group):waitUntilFinished()
            local op = perform { memoize = true, dependencies = { dep, group }, main = function(op)
                return op.dependencies[1].error.value.code + op.dependencies[2].results[1]
            end }
            return op.result, op.isSkipped
            """
        #expect(try folder.run(script) == [11, false])
        #expect(try folder.run(script) == [11, true])
        #expect(try folder.run(script.replacing("code = 1", with: "code = 2")) == [12, false])
        #expect(try folder.run(script.replacing("return 10", with: "return 20")) == [21, false])
    }

    @Test("Modules count that only results and preludes require")
    func modulesOfOthers() throws {
        let folder = try StoreFolder()
        let script = """
            opscript.prelude(function() helper = function() return require('p').n end end)
            local dep = Operation.new { main = function() return function() return require('r').n end end }
            queue:addOperation(dep):waitUntilFinished()
            local op = perform { memoize = true, dependencies = { dep }, main = function(op)
                return op.dependencies[1].result() * 10 + helper()
            end }
            return op.result
            """
        for (p, r, result) in [(1, 2, 21), (1, 2, 21), (3, 2, 23), (3, 4, 43)] {
            folder["p.lua"] = "return { n = \(p) }"
            folder["r.lua"] = "return { n = \(r) }"
            #expect(try folder.run(script) == [.integer(result)])
        }
    }

    @Test("The result of an operation that a prelude captures counts")
    func operationsInPreludes() throws {
        let folder = try StoreFolder()
        let script = """
            local dep = Operation.new { name = 'dep', main = function() return 1 end }
            queue:addOperation(dep):waitUntilFinished()
            opscript.prelude(function() value = dep.result end)
            local op = perform { memoize = true, main = function() return value end }
            return op.result, op.isSkipped
            """
        #expect(try folder.run(script) == [1, false])
        #expect(try folder.run(script) == [1, true])
        #expect(try folder.run(script.replacing("return 1", with: "return 2")) == [2, false])
    }

    @Test("What a worker process has done is skipped in a thread, and the other way round")
    func workerProcesses() throws {
        let folder = try StoreFolder()
        folder["lib.lua"] = "return { f = function(n) return n + 1 end }"
        let script = """
            local lib, t = require 'lib', { 2, x = { 3 } }
            local op = Operation.new { memoize = true, main = function(op, n) note('ran') return lib.f(n) + t.x[1], t end, arguments = { 1 } }
            queue:addOperation(op):waitUntilFinished()
            return op.result, op.results[2].x[1], op.isSkipped
            """
        #expect(try folder.run(script) { $0.isolation = .process } == [5, 3, false])
        #expect(try folder.run(script) == [5, 3, true])
        #expect(try folder.run(script) { $0.isolation = .process } == [5, 3, true])
        #expect(folder.notes() == ["ran"])
    }

    @Test("Random edits: what is skipped has the result that running would have")
    func randomEdits() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededGenerator(seed: seed)
        let folder = try StoreFolder()
        for number in 0..<TestLength.size(60) {
            let upvalue = ["1", "2", "'2'", "{ 1 }", "{ 2 }", "{ { 1 }, x = 2 }"].randomElement(using: &random)!
            let code = ["show(v)", "show(v) .. '.'", "show({ v, v })", "show(v) .. count"].randomElement(using: &random)!
            let argument = ["1", "{ a = 1, b = 2 }", "{ b = 2, a = 1 }"].randomElement(using: &random)!
            let comment = ["", "-- a comment\n\n"].randomElement(using: &random)!
            let script = """
                \(comment)local v = \(upvalue)
                count = \(Int.random(in: 0...1, using: &random))
                local function show(v)
                    if type(v) ~= 'table' then return tostring(v) .. type(v) end
                    local keys, parts = {}, {}
                    for key in pairs(v) do keys[#keys + 1] = key end
                    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
                    for i, key in ipairs(keys) do parts[i] = key .. '=' .. show(v[key]) end
                    return '{' .. table.concat(parts, ',') .. '}'
                end
                local function main(op, x) return \(code) .. show(x) end
                local first = Operation.new { name = 'first', memoize = true, main = main, arguments = { \(argument) } }
                local second = Operation.new { name = 'second', memoize = true, dependencies = { first }, main = function()
                    return #first.result .. first.result:sub(1, 3)
                end }
                queue:addOperations({ first, second }, true)
                local result = main(nil, \(argument))
                return first.result == result, second.result == #result .. result:sub(1, 3)
                """
            #expect(try folder.run(script) == [true, true], "seed \(seed), case \(number)")
            _ = folder.explanations()
            #expect(try folder.run(workers: 1, script) == [true, true], "seed \(seed), case \(number)")
            #expect(folder.explanations() == ["first: skipped", "second: skipped"], "seed \(seed), case \(number)")
        }
    }

    @Test("A dry run runs nothing that asks, and says what would run")
    func dryRun() throws {
        let folder = try StoreFolder()
        let script = """
            local a = Operation.new { name = 'a', memoize = true, main = function() note('a') return 1 end }
            local b = Operation.new { name = 'b', memoize = true, dependencies = { a }, main = function() note('b') return a.result end }
            queue:addOperations({ a, b }, true)
            """
        try folder.run(script)
        try folder.run(mode: .dryRun, script)
        try folder.run(mode: .dryRun, script.replacing("return 1", with: "return 2"))
        #expect(folder.notes() == ["a", "b"])
        #expect(
            folder.explanations().dropFirst(2) == [
                "a: skipped", "b: skipped", "a: runs: function 'a' changed in line 1".replacing("'a' changed", with: "'main' changed"),
                "b: runs: result of 'a' changed",
            ])
        try folder.run(mode: .alwaysRun, script)
        #expect(folder.notes() == ["a", "b"])
    }

    @Test("The host sees what was skipped, and why the rest ran")
    func hosts() throws {
        let folder = try StoreFolder()
        for reason in ["never ran", nil] {
            try withRuntime(store: Runtime.Store(directory: "\(folder.path)/store")) { runtime in
                let made = try runtime.operation(
                    "return queue:addOperation(Operation.new { memoize = true, main = function() return 5 end })")
                #expect(try runtime.results(of: made) == [5])
                let operation = try #require(made as? LuaOperation)
                #expect(operation.isSkipped == (reason == nil) && operation.reasonToRun == reason)
                #expect(runtime.monitor.counts().skipped == (reason == nil ? 1 : 0))
            }
        }
    }

    @Test("Without a store, the options are an error that says so")
    func withoutStore() throws {
        let error = #expect(throws: LuaError.self) { try script("Operation.new { memoize = true, main = function() end }") }
        #expect(error?.message.hasSuffix("the host of this script keeps no store") ?? false)
    }

    @Test(
        "Misuse is an error that says what to do",
        arguments: [
            ("version = 1", "'version' has no effect without 'memoize', 'inputs' or 'outputs'"),
            ("memoize = 1", "memoize: boolean expected, got number"),
            (
                "memoize = true, asynchronous = true",
                "an asynchronous operation cannot ask the store: do its work in an operation that ends with 'main'"
            ),
            ("inputs = 5", "inputs must be a string or an array of strings, got a number"),
            ("outputs = { 'a', {} }", "outputs[2] must be a string, got a table"),
            ("depfile = {}", "depfile must be one path, got 0"),
        ])
    func misuse(options: String, message: String) throws {
        let folder = try StoreFolder()
        let error = #expect(throws: LuaError.self) { try folder.run("Operation.new { \(options), main = function() end }") }
        #expect(error?.message.hasSuffix(message) ?? false, "\(error?.message ?? "")")
    }

    @Test("A sandbox without files and without the environment has no inputs, outputs and variables")
    func sandbox() throws {
        let folder = try StoreFolder()
        let values = try folder.run(
            """
            local function message(options)
                options.main = function() return 1 end
                local _, message = pcall(Operation.new, options)
                return tostring(message):match("'%a+' is not available here")
            end
            return message { inputs = 'a' }, message { outputs = 'a' }, message { depfile = 'a' }, message { memoize = true, env = 'HOME' },
                perform { memoize = true, main = function() return 1 end }.result
            """
        ) { configuration in
            configuration.sandbox = .untrusted
        }
        #expect(
            values == [
                "'inputs' is not available here", "'outputs' is not available here", "'depfile' is not available here",
                "'env' is not available here", 1,
            ])
    }
}
