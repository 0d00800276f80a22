import Testing

@Suite("How failures are reported")
struct FailureReportTests {
    private func errors(_ script: String, environment: [String: String] = [:]) throws -> String {
        let directory = try ScratchDirectory()
        try directory.write("local queue = opscript.OperationQueue.new 'q'\n" + script, to: "s.lua")
        return try Command.opscript("s.lua").directory(directory.path).environment(environment).run().errorText
    }

    @Test("An error of the script shows its line, and what the message names in it")
    func script() throws {
        let text = try errors("local t = {}\nlocal function f() return t.a.b end\nprint(f() + 1)")
        #expect(
            text == """
                opscript: s.lua:3: attempt to index a nil value (field 'a')
                  local function f() return t.a.b end
                                              ^
                stack traceback:
                \ts.lua:3: in local 'f'
                \ts.lua:4: in main chunk

                """)
    }

    @Test("Failures that differ in the operation and in numbers are one report, with their names up to a limit")
    func alike() throws {
        let script = """
            for i = 1, 20 do queue:addOperation(opscript.Operation.new { name = "job " .. i, main = function()
              error("cannot do item " .. i)
            end }) end
            """
        let text = try errors("queue.maxConcurrentOperationCount = 1\n" + script)
        #expect(
            text == """
                opscript: s.lua:4: cannot do item 1
                    error("cannot do item " .. i)
                  in operation 'job 1' of queue 'q'
                  and 19 more alike: 'job 2', 'job 3', 'job 4', 'job 5', 'job 6' and 14 more
                opscript: 20 operations failed

                """)
    }

    @Test("The end says how many operations did not run because one that they depend on failed")
    func consequences() throws {
        let text = try errors(
            """
            queue.dependencyPolicy = "succeeded"
            local first = opscript.Operation.new(function() error("boom", 0) end)
            local second = opscript.Operation.new(function() end)
            local third = opscript.Operation.new(function() end)
            second:addDependency(first)
            third:addDependency(second)
            queue:addOperations { first, second, third }
            """)
        #expect(text.hasSuffix("opscript: 1 operation failed; 2 did not run because of their dependencies\n"), "\(text)")
    }

    @Test("Failures of different kinds or at different places are not alike")
    func different() throws {
        let text = try errors(
            "for i = 1, 2 do queue:addOperation(function() error 'a' end) end queue:addOperation(function()\nerror 'a' end)")
        #expect(text.contains("  and 1 more alike\n") && text.contains("opscript: s.lua:3: a\n"), "\(text)")
    }

    @Test("A failure for want of the result of a failed operation names that one")
    func cause() throws {
        let script = """
            local a = queue:addOperation(opscript.Operation.new { name = "a", main = function() error "boom" end })
            local b = opscript.Operation.new { name = "b", dependencies = { a }, main = function() return a.result + 1 end }
            local c = opscript.Operation.new { name = "c", dependencies = { a }, main = function() return a.result, error "own" end }
            queue:addOperation(b)
            queue:addOperation(c)
            """
        let text = try errors(script)
        #expect(text.contains("  in operation 'b' of queue 'q', because operation 'a' failed\n"), "\(text)")
        #expect(text.contains("  in operation 'c' of queue 'q'\n") && text.contains("  in operation 'a' of queue 'q'\n"), "\(text)")
    }

    @Test("An operation without a name is named by the place of its function")
    func unnamed() throws {
        let text = try errors("queue:addOperation(function() error {} end)")
        #expect(text.hasPrefix("opscript: (error object is a table value)\n  in an operation <s.lua:2> of queue 'q'\n"), "\(text)")
    }

    @Test("An operation whose function was left by a tail call is not given the place of the called function")
    func tailCall() throws {
        let text = try errors(
            """
            local function price(item) return item.price + 1 end
            queue:addOperation(function() return price {} end)
            """)
        #expect(text.contains("\n  in an operation of queue 'q'\n"), "\(text)")
    }

    @Test("What is not a terminal gets no colours", arguments: ["xterm", "dumb"])
    func plain(term: String) throws {
        #expect(!(try errors("error 'x'", environment: ["TERM": term]).contains("\u{1B}")))
    }

    @Test("A terminal gets colours, unless NO_COLOR or TERM=dumb says otherwise")
    func colours() throws {
        for (environment, isColoured) in [
            (["TERM": "xterm"], true), (["TERM": "dumb"], false), (["TERM": "xterm", "NO_COLOR": "1"], false),
        ] {
            let command = Command.shell(#"script -qec "'$OPSCRIPT' -e \"error 'x'\"" /dev/null"#).environment(environment)
            let text = try command.run().text
            #expect(text.contains("x") && text.contains("\u{1B}") == isColoured, "\(environment) \(text)")
        }
    }

    @Test("A script in a pipe is reported without its source, and is not waited for")
    func pipe() throws {
        let directory = try ScratchDirectory()
        let script = #"mkfifo "$1/p"; echo "error 'x'" > "$1/p" & "$OPSCRIPT" "$1/p""#
        let outcome = try Command.shell(script, directory.path).run()
        #expect(outcome.status == 1 && outcome.errorText.contains(":1: x\n"), "\(outcome)")
    }
}
