import Glibc
import LuaBindings
import TestLimits
import TestSupport
import Testing

/// Operations with `inputs` and `outputs`.
@Suite(.endsWithin(seconds: 60)) struct FileStepTests {
    /// Copies a file, as a compiler would.
    private static let build = """
        function build(options)
            return Operation.new {
                name = options.name, inputs = { folder .. '/a.c', { folder .. '/*.h', optional = true } }, outputs = { folder .. '/a.o' },
                keepOnFailure = options.keepOnFailure, env = options.env, depfile = options.depfile,
                main = function()
                    note('ran')
                    local input <close> = assert(io.open(folder .. '/a.c'))
                    local output <close> = assert(io.open(folder .. '/a.o', 'w'))
                    output:write('object of ', input:read('a'))
                    if options.fails then error('no') end
                    return 'done'
                end,
            }
        end
        local function run(options)
            local op = build(options)
            queue:addOperation(op):waitUntilFinished()
            return op.result, op:whyRun()
        end

        """

    private func run(_ folder: StoreFolder, _ options: String = "{}") throws -> [LuaValue] {
        try folder.run(Self.build + "return run \(options)")
    }

    @Test("A step runs if an input, an output or the list of inputs is not as it was")
    func changes() throws {
        let folder = try StoreFolder()
        folder["a.c"] = "one"
        #expect(try run(folder) == ["done", "never ran"])
        #expect(folder["a.o"] == "object of one")
        #expect(try run(folder) == ["done", .nil])
        folder["a.c"] = "two"
        #expect(try run(folder) == ["done", "input 'a.c' changed"])
        #expect(folder["a.o"] == "object of two")
        folder["a.o"] = nil
        #expect(try run(folder) == ["done", "output 'a.o' is missing"])
        folder["a.o"] = "damaged"
        #expect(try run(folder) == ["done", "output 'a.o' changed"])
        folder["b.h"] = "new"
        #expect(try run(folder) == ["done", "input 'b.h' is new"])
        folder["a.c"] = "two"
        #expect(try run(folder) == ["done", .nil])
        #expect(folder.notes().count == 5)
    }

    @Test("A file whose name is also a pattern is an input")
    func namesThatArePatterns() throws {
        let folder = try StoreFolder()
        let script = """
            local path = folder .. '/[id].txt'
            local op = perform { memoize = true, inputs = path, main = function() return io.open(path):read('a') end }
            return op.result, op.isSkipped
            """
        folder["[id].txt"] = "one"
        #expect(try folder.run(script) == ["one", false])
        #expect(try folder.run(script) == ["one", true])
        folder["[id].txt"] = "two"
        #expect(try folder.run(script) == ["two", false])
    }

    @Test("An input that a body changes and puts back is not recorded")
    func changedAndPutBack() throws {
        let folder = try StoreFolder()
        folder["a"] = "one"
        let script = """
            local path = folder .. '/a'
            local op = perform { memoize = true, inputs = path, main = function()
                os.execute(('cp -p %s %s.saved && echo two >%s && cat %s.saved >%s && touch -r %s.saved %s'):gsub('%%s', path))
                note 'ran'
            end }
            return op.isSkipped
            """
        #expect(try folder.run(script) == [false])
        #expect(try folder.run(script) == [false])
        #expect(folder.notes() == ["ran", "ran"])
    }

    @Test("A wait for a file that another process makes ends with the operation's time")
    func waitForOthers() throws {
        let folder = try StoreFolder()
        let script = """
            local output = folder .. '/out'
            local op = perform { name = 'op', timeout = ..., outputs = output, main = function()
                note 'ran'
                while not io.open(folder .. '/go') do opscript.sleep(0.001) end
                io.open(output, 'w'):close()
            end }
            return op.error and op.error.kind
            """
        let other = TestThread {
            do { #expect(try folder.run(script.replacing("...", with: "nil")) == [.nil]) } catch { Issue.record("\(error)") }
        }
        while folder["ran"] == nil { sched_yield() }
        #expect(try folder.run(script.replacing("...", with: "0.05")) == ["timeout"])
        folder["go"] = ""
        other.join()
        #expect(folder.notes() == ["ran"])
    }

    @Test("The outputs of a body that failed are removed, unless they are to stay")
    func failures() throws {
        let folder = try StoreFolder()
        folder["a.c"] = "one"
        _ = try run(folder, "{ fails = true }")
        #expect(folder["a.o"] == nil)
        _ = try run(folder, "{ fails = true, keepOnFailure = true }")
        #expect(folder["a.o"] == "object of one")
        #expect(try run(folder).last?.text != nil)
    }

    @Test("A body that failed leaves outputs that it has not changed, however new they are")
    func untouchedOutputs() throws {
        let folder = try StoreFolder()
        let script = """
            local op = Operation.new { outputs = { folder .. '/old', folder .. '/changed', folder .. '/new' }, main = function()
                for _, name in ipairs { 'changed', 'new' } do io.open(folder .. '/' .. name, 'w'):write(name):close() end
                error 'no'
            end }
            queue:addOperation(op):waitUntilFinished()
            return op.error.kind
            """
        for _ in 0..<3 {
            folder["old"] = "yesterday's"
            folder["changed"] = "yester"
            #expect(try folder.run(script) == ["error"])
            #expect(folder["old"] == "yesterday's")
            #expect(folder["changed"] == nil && folder["new"] == nil)
        }
    }

    @Test(
        "An input that does not exist is an error before the body runs, which names it and the nearest names; optional ones may be missing")
    func missingInputs() throws {
        let folder = try StoreFolder()
        folder["real.txt"] = "one"
        func run(_ inputs: String) throws -> String {
            let values = try folder.run(
                """
                local op = Operation.new { name = 'copy', inputs = \(inputs), outputs = folder .. '/out', main = function()
                    io.open(folder .. '/out', 'w'):write 'made':close()
                end }
                queue:addOperation(op):waitUntilFinished()
                return op.error and tostring(op.error) or 'ran'
                """)
            return (values.first?.text ?? "").replacing(folder.path + "/", with: "")
        }
        let remedy = " (an operation that makes an input must be a dependency; an input that may be missing is { path, optional = true })"
        #expect(
            try run("{ folder .. '/rael.txt', folder .. '/no-such/*.c' }")
                == "'copy' did not run: it has no input 'rael.txt' (did you mean 'real.txt'?); no file matches its input 'no-such/*.c'"
                + remedy)
        #expect(try run("folder .. '/*.c'") == "'copy' did not run: no file matches its input '*.c'" + remedy)
        #expect(folder["out"] == nil)
        #expect(try run("{ folder .. '/real.txt', { folder .. '/*.c', folder .. '/a', optional = true } }") == "ran")
        #expect(try run("{ folder .. '/b', optional = true }") == "ran")
        folder["a"] = ""
        #expect(try run("{ folder .. '/a', folder .. '/b', folder .. '/c' }").contains("it has no input 'b'"))
        for (inputs, message) in [
            ("{ 'a', optional = 1 }", "inputs.optional: boolean expected, got number"), ("{ 'a', maybe = true }", "got the field 'maybe'"),
            ("{ { 'a', { 'b' } } }", "inputs[1][2] must be a string"),
        ] {
            let values = try folder.run("return tostring(select(2, pcall(Operation.new, { inputs = \(inputs), main = print })))")
            #expect(values.first?.text?.contains(message) ?? false, "\(values)")
        }
    }

    @Test("A depfile for another folder's outputs is not recorded, unless cwd names that folder; then its inputs count")
    func depfileOfAnotherFolder() throws {
        let folder = try StoreFolder()
        folder["v.h"] = "1"
        func run(_ depfile: String) throws -> [LuaValue] {
            try folder.run(
                """
                local op = Operation.new { outputs = folder .. '/v.o', depfile = \(depfile), main = function()
                    for name, text in pairs { ['v.o'] = 'object', ['v.d'] = 'v.o: v.h\\n' } do
                        io.open(folder .. '/' .. name, 'w'):write(text):close()
                    end
                end }
                queue:addOperation(op):waitUntilFinished()
                return op.isSkipped, op.error
                """)
        }
        for _ in 0..<2 { #expect(try run("folder .. '/v.d'") == [false, .nil]) }
        let depfile = "{ folder .. '/v.d', cwd = folder }"
        #expect(try run(depfile) == [false, .nil])
        #expect(try run(depfile) == [true, .nil])
        folder["v.h"] = "2"
        #expect(try run(depfile) == [false, .nil])
    }

    @Test("The outputs of a body that is stopped or cancelled are removed")
    func stops() throws {
        let folder = try StoreFolder()
        let script = """
            local op = Operation.new { outputs = folder .. '/half', timeout = limit, main = function(op)
                local file <close> = assert(io.open(folder .. '/half', 'w'))
                file:write('half')
                file:flush()
                if limit then while true do end end
                op:cancel()
            end }
            queue:addOperation(op):waitUntilFinished()
            return op.isCancelled
            """
        for limit in ["0.02", "nil"] {
            #expect(try folder.run("local limit = \(limit) " + script) == [true])
            #expect(folder["half"] == nil)
        }
    }

    @Test("Two operations cannot make one file")
    func claims() throws {
        let folder = try StoreFolder()
        folder["a.c"] = "one"
        let error = #expect(throws: LuaError.self) {
            try folder.run(
                Self.build + """
                    queue.isSuspended = true
                    queue:addOperation(build { name = 'first' })
                    queue:addOperation(build { name = 'second' })
                    """)
        }
        #expect(error?.message.contains("'first' and 'second' would both make 'a.o'") ?? false, "\(error?.message ?? "")")
        // An operation that was not added, or has ended, claims nothing.
        #expect(
            try folder.run(
                Self.build + """
                    build { name = 'first' }
                    local second, third = build { name = 'second' }, build { name = 'third' }
                    queue:addOperation(second):waitUntilFinished()
                    queue:addOperation(third):waitUntilFinished()
                    return second.result, third.result
                    """) == ["done", "done"])
    }

    @Test("An operation whose input another one makes does not run before, nor after a failure of the other one")
    func makers() throws {
        let folder = try StoreFolder()
        folder["made"] = "old"
        let values = try folder.run(
            """
            local function write(path, text)
              local file <close> = assert(io.open(path, 'w'))
              file:write(text)
            end
            local function maker(fails, keeps)
              return Operation.new { name = 'maker', outputs = folder .. '/made', keepOnFailure = keeps, main = function()
                if keeps then write(folder .. '/made', 'kept') end
                if fails then error('no', 0) end
                write(folder .. '/made', 'new')
              end }
            end
            local function reader(isOptional)
              local inputs = { folder .. '/made', optional = isOptional }
              return Operation.new { name = 'reader', inputs = inputs, memoize = true, main = function()
                local file <close> = assert(io.open(folder .. '/made'))
                return file:read 'a'
              end }
            end
            local messages = {}
            local function await(read, ...)
              for _, op in ipairs { ... } do queue:addOperation(op) end
              read:waitUntilFinished()
              messages[#messages + 1] = read.error and read.error.message:match "^'reader' did not run: 'maker' makes its input" or read.result
              queue:waitUntilAllOperationsAreFinished()
              for _, op in ipairs { ... } do local _ = op.error end
            end
            -- Too early: the reader is the only one that may run.
            local make, read = maker(false), reader()
            make:addDependency(read)
            await(read, make, read)
            -- After a failure.
            make, read = maker(true), reader()
            read:addDependency(make)
            await(read, make, read)
            -- After the maker, also if it had nothing to do.
            for _ = 1, 2 do
              make, read = maker(false), reader()
              read:addDependency(make)
              await(read, make, read)
            end
            -- A failed maker that keeps its output, and one whose output is optional.
            make, read = maker(true, true), reader()
            read:addDependency(make)
            await(read, make, read)
            make, read = maker(true), reader(true)
            read:addDependency(make)
            await(read, make, read)
            return table.unpack(messages)
            """)
        let refused: LuaValue = "'reader' did not run: 'maker' makes its input"
        #expect(values == [refused, refused, "new", "new", "kept", "kept"])
    }

    @Test("The folder of an output is made, also that of a temporary one")
    func foldersOfOutputs() throws {
        let folder = try StoreFolder()
        let values = try folder.run(
            """
            local path = folder .. '/a/b/made'
            local op = queue:addOperation(Operation.new { outputs = path, main = function(op)
              local file <close> = assert(io.open(op:output(), 'w'))
              local plain <close> = assert(io.open(folder .. '/a/b/plain', 'w'))
            end })
            op:waitUntilFinished()
            local other = queue:addOperation(function(_, path)
              local file <close> = assert(io.open(opscript.Operation.current:output(path), 'w'))
            end, folder .. '/c/d')
            other:waitUntilFinished()
            return op.error, other.error, io.open(path) ~= nil, io.open(folder .. '/c/d') ~= nil
            """)
        #expect(values == [nil, nil, true, true])
    }

    @Test("Environment variables that are named count")
    func variables() throws {
        let folder = try StoreFolder()
        folder["a.c"] = "one"
        unsafe setenv("OPSCRIPT_TEST_VARIABLE", "1", 1)
        let options = "{ env = { 'OPSCRIPT_TEST_VARIABLE' } }"
        _ = try run(folder, options)
        #expect(try run(folder, options) == ["done", .nil])
        unsafe setenv("OPSCRIPT_TEST_VARIABLE", "2", 1)
        #expect(try run(folder, options) == ["done", "environment variable 'OPSCRIPT_TEST_VARIABLE' changed"])
        unsafe unsetenv("OPSCRIPT_TEST_VARIABLE")
    }

    @Test("An input that changes while the body runs is not recorded")
    func changingInputs() throws {
        let folder = try StoreFolder()
        folder["a.c"] = "one"
        let script =
            Self.build + """
                local op = Operation.new { name = 'op', inputs = folder .. '/a.c', main = function()
                    local file <close> = assert(io.open(folder .. '/a.c', 'a'))
                    file:write('more')
                end }
                queue:addOperation(op):waitUntilFinished()
                """
        try folder.run(script)
        #expect(folder.explanations().last?.hasPrefix("op: not recorded: ") ?? false)
    }

    // MARK: temporary outputs

    /// Adds an operation that writes `a.txt` under its temporary name, and returns the operation, the name, and the files of the folder.
    private static let writing = """
        local path = folder .. '/a.txt'
        local function files()
            local names = {}
            for name in io.popen('ls -A ' .. folder):lines() do
                if name ~= '.opscript' then names[#names + 1] = name end
            end
            return table.concat(names, ' ')
        end
        local function write(options)
            local after, write = options.after, options.write ~= false
            options.after, options.write = nil, nil
            options.main = function()
                local op = Operation.current
                local name = op:output(path)
                assert(name == op:output(path) and name:match '^(.*)/%.opscript%-%d+%-%d+%-a%.txt$' == folder)
                if write then
                    local file <close> = assert(io.open(name, 'w'))
                    file:write 'half'
                end
                during = files()
                if after then after() end
                return during
            end
            local op = Operation.new(options)
            queue:addOperation(op):waitUntilFinished()
            return op
        end

        """

    @Test(
        "An output gets its name when the body has succeeded", arguments: ["{}", "{ outputs = path }", "{ outputs = path, atomic = true }"])
    func temporaryOutput(_ options: String) throws {
        let folder = try StoreFolder()
        let values = try folder.run(
            Self.writing
                + "local op = write \(options) return op.error and op.error.message, op.result:match '^%.opscript%-[^ ]*$' ~= nil, files()")
        #expect(values == [.nil, true, "a.txt"])
        #expect(folder["a.txt"] == "half")
    }

    @Test(
        "A body that fails, is cancelled or runs out of time leaves neither a temporary output nor a changed one",
        arguments: [
            "{ after = function() error 'no' end }", "{ after = function() Operation.current:cancel() end }",
            "{ timeout = 0.05, after = function() while true do end end }", "{ outputs = path, after = function() error 'no' end }",
            "{ retry = { attempts = 3 }, after = function() error 'no' end }",
        ])
    func discardedOutput(_ options: String) throws {
        let folder = try StoreFolder()
        folder["a.txt"] = "whole"
        #expect(try folder.run(Self.writing + "local error = write(\(options)).error return files()") == ["a.txt"])
        #expect(folder["a.txt"] == "whole")
    }

    @Test("Misuse of temporary outputs is an error")
    func misusedOutput() throws {
        let folder = try StoreFolder()
        func message(_ source: String) throws -> String { try folder.run(Self.writing + source).first?.text ?? "" }
        let unwritten = try message("return write({ write = false }).error.message")
        #expect(
            unwritten.contains("a.txt' was not written: output returned '") && unwritten.hasSuffix("and the body has made no such file"))
        let other =
            "local op = perform { outputs = path, main = function() Operation.current:output(folder .. '/a.tx') end } return op.error.message"
        #expect(try message(other).contains("a.tx' is none of the outputs of "))
        let plain = """
            local op = perform { name = 'p', outputs = path, atomic = true, main = function() io.open(path, 'w'):close() end }
            return op.error.message
            """
        #expect(try message(plain).contains("'p' has 'atomic', so its body must write "))
        #expect(
            try message("return select(2, pcall(Operation.new, { atomic = true, main = print }))")
                == "'atomic' has no effect without 'outputs'")
        let outside = "local op = Operation.new(print) return select(2, pcall(op.output, op, path))"
        #expect(try message(outside).hasSuffix("does not run this code: call 'output' in its function"))
        #expect(
            try message("local op = perform { main = function() Operation.current:output() end } return op.error.message")
                .contains("output needs a path: "))
    }

    @Test("A depfile may have rules for the temporary output")
    func depfileOfTemporaryOutput() throws {
        let folder = try StoreFolder()
        (folder["a.c"], folder["a.h"]) = ("one", "two")
        let script = """
            local o, d = folder .. '/a.o', folder .. '/a.d'
            local op = perform { inputs = folder .. '/a.c', outputs = o, depfile = d, main = function()
                local name = Operation.current:output()
                io.open(name, 'w'):close()
                io.open(d, 'w'):write(name, ': ', folder, '/a.h\\n'):close()
            end }
            return op.isSkipped, op:whyRun()
            """
        #expect(try folder.run(script) == [false, "never ran"])
        #expect(try folder.run(script) == [true, .nil])
        folder["a.h"] = "changed"
        #expect(try folder.run(script) == [false, "input 'a.h' changed"])
    }
}
