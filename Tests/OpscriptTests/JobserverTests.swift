import Testing

/// GNU make's jobserver, above the command and below it.
@Suite("GNU make's jobserver")
struct JobserverTests {
    /// Runs a shell script in a folder of its own, in which `files` are. `$OPSCRIPT` has the path of the command.
    private func run(_ files: [String: String], _ script: String) throws -> Outcome {
        let writes = files.map { "cat >'\($0)' <<'@END'\n\($1)\n@END\n" }.joined()
        return try Command.shell("folder=$(mktemp -d); cd \"$folder\" || exit 99; trap 'rm -rf \"$folder\"' EXIT\n\(writes)\(script)").run()
    }

    /// Notes how many of its kind run at once.
    private static let note = "touch run.$$; ls run.* 2>/dev/null | wc -l >> seen; seq 100000 | tail -n 1 >last.$$; rm last.$$ run.$$"
    /// The greatest number noted.
    private static let most = "sort -n seen | tail -n 1"
    /// A script whose operations run programs.
    private static let script = """
        local queue = opscript.OperationQueue.new()
        for i = 1, 6 do queue:addOperation(function() opscript.run "sh note" end) end
        """

    @Test("Under make -j3, two runs and their programs have three places, and all tokens return")
    func belowMake() throws {
        let outcome = try run(
            ["makefile": "all: a b\na b:\n\t+@$(OPSCRIPT) script.lua", "script.lua": Self.script, "note": Self.note],
            "make --no-print-directory -j3 && [ \"$(\(Self.most))\" -le 3 ] && echo fine")
        // make says so if tokens are missing at its end.
        #expect(outcome == Outcome(status: 0, output: Array("fine\n".utf8), errors: []), "\(outcome)")
    }

    /// Tells whether both targets run at the same moment.
    private static let meeting = """
        all: a b
        a b:
        \t@touch $@; while ! { [ -e a ] && [ -e b ]; }; do sleep 0.01; done; sh note
        """

    @Test("A make below a run has its places")
    func aboveMake() throws {
        let outcome = try run(
            [
                "makefile": Self.meeting, "note": Self.note,
                "script.lua": """
                local queue = opscript.OperationQueue.new()
                queue:addOperation(function()
                  local result = opscript.process({ "make", "--no-print-directory" }):wait()
                  io.write(result.stdout, result.stderr)
                end)
                for i = 1, 10 do queue:addOperation(function() opscript.run "sh note" end) end
                """,
            ], "$OPSCRIPT -j3 script.lua && [ \"$(\(Self.most))\" -le 3 ] && echo fine")
        #expect(outcome == Outcome(status: 0, output: Array("fine\n".utf8), errors: []), "\(outcome)")
    }

    @Test("A make below a run below make has the places of the make above")
    func between() throws {
        let outcome = try run(
            [
                "makefile": "all:\n\t+@$(OPSCRIPT) script.lua", "inner": Self.meeting, "note": Self.note,
                "script.lua": "print(opscript.run { 'make', '--no-print-directory', '-f', 'inner' })",
            ], "make --no-print-directory -j2")
        #expect(outcome == Outcome(status: 0, output: Array("\n".utf8), errors: []), "\(outcome)")
    }

    @Test("A fifo passes the places on, and goes at the end")
    func fifo() throws {
        let outcome = try run(
            [
                "script.lua": """
                local queue = opscript.OperationQueue.new()
                local op = queue:addOperation(function()
                  return opscript.run 'printf "%s\\n" "$MAKEFLAGS"; fifo=${MAKEFLAGS##*fifo:}; fifo=${fifo%% *}; exec 9<>"$fifo"; head -c 2 <&9; printf ++ >&9'
                end)
                op:waitUntilFinished()
                local flags = op.result
                print((flags:gsub("fifo:.*/jobserver", "fifo:")))
                local file <close> = io.open("path", "w")
                file:write(flags:match "fifo:(%S+)")
                """
            ], "MAKEFLAGS='k -j7 -- A=1' $OPSCRIPT -j3 --jobserver-style=fifo script.lua; [ -e \"$(cat path)\" ] || echo gone")
        #expect(
            outcome == Outcome(status: 0, output: Array("k -j3 --jobserver-auth=fifo: -- A=1\n++\ngone\n".utf8), errors: []), "\(outcome)")
    }

    @Test(
        "A run returns the tokens that it has taken, however it ends",
        arguments: [
            "queue:waitUntilAllOperationsAreFinished()", "error 'an error of the script'", "os.exit(3)",
            "opscript.sh('kill -INT $PPID'):wait()",
            "opscript.sh('kill -TERM $PPID'):wait()", "queue:addOperation(function() os.exit(4) end)",
        ])
    func tokens(ending: String) throws {
        let outcome = try run(
            [
                "script.lua": """
                queue = opscript.OperationQueue.new()
                for i = 1, 3 do queue:addOperation(function() local stop = opscript.now() + 0.05 repeat until opscript.now() > stop end) end
                while queue.operations[1] and not queue.operations[1].isExecuting do opscript.sleep(0.001) end
                \(ending)
                """
            ],
            """
            mkfifo tokens; exec 9<>tokens; printf ab >&9
            MAKEFLAGS=" -j3 --jobserver-auth=fifo:$PWD/tokens" $OPSCRIPT script.lua 2>errors
            dd bs=1 count=2 iflag=nonblock <&9 2>/dev/null | fold -w1 | sort | tr -d '\\n'
            """)
        #expect(outcome.text == "ab", "\(outcome)")
    }

    @Test("An operation that waits for a token of make says so")
    func why() throws {
        let outcome = try run(
            [
                "script.lua": """
                local queue = opscript.OperationQueue.new()
                queue:addOperation(function()
                  local op = queue:addOperation(function() end)
                  repeat local reason = op:why() until reason and reason:find "place"
                  print((op:why()))
                end):waitUntilFinished()
                """
            ], "mkfifo tokens; exec 9<>tokens; MAKEFLAGS=\" -j3 --jobserver-auth=fifo:$PWD/tokens\" $OPSCRIPT script.lua")
        #expect(outcome.text == "an unnamed Operation waits for a place: other jobs of make have them\n", "\(outcome)")
    }

    @Test("If make has not passed its jobserver on, the run says so once, and has its usual places")
    func notPassedOn() throws {
        let outcome = try run(
            ["makefile": "all:\n\t@$(OPSCRIPT) -j2 script.lua", "script.lua": Self.script, "note": Self.note],
            "make -j3 && [ \"$(\(Self.most))\" -le 2 ] && echo fine")
        #expect(outcome.status == 0 && outcome.text == "fine\n", "\(outcome)")
        #expect(
            outcome.errorText.hasSuffix(
                "opscript: make's jobserver is unavailable, so this run has places of its own: begin the recipe's line with '+'\n")
                && outcome.errorText.split(separator: "\n").count == 1,
            "\(outcome)")
    }

    @Test("With --no-jobserver, neither the run nor its programs use one")
    func off() throws {
        let outcome = try run(
            ["makefile": "all:\n\t+@$(OPSCRIPT) --no-jobserver -j2 script.lua", "script.lua": "print(opscript.run 'echo $MAKEFLAGS')"],
            """
            make --no-print-directory -j3 | sed 's/=.*//'
            $OPSCRIPT --no-jobserver -e "opscript.OperationQueue.new():addOperation(function() print(opscript.run 'echo [$MAKEFLAGS]') end)"
            """)
        #expect(outcome == Outcome(status: 0, output: Array("--no-print-directory\n[]\n".utf8), errors: []), "\(outcome)")
    }

    @Test("A script's MAKEFLAGS prevails, and a wrong style is an error")
    func overridden() throws {
        let outcome = try run(
            [
                "script.lua": """
                local queue = opscript.OperationQueue.new()
                queue:addOperation(function() print(opscript.run { "sh", "-c", "echo $MAKEFLAGS", env = { MAKEFLAGS = "-k" } }) end)
                """
            ], "$OPSCRIPT script.lua; $OPSCRIPT --jobserver-style=pip script.lua")
        #expect(outcome.text == "-k\n", "\(outcome)")
        #expect(outcome.errorText.contains("'--jobserver-style' needs a form, pipe or fifo, got 'pip'"), "\(outcome)")
    }
}
