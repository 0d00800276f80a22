import Glibc
import Testing

@Suite("opscript attach")
struct AttachTests {
    private let home: ScratchDirectory

    init() throws { home = try ScratchDirectory() }

    /// Waits until the process `$pid` can be attached to.
    private static let wait = """
        until "$OPSCRIPT" attach $pid </dev/null >/dev/null 2>&1; do kill -0 $pid || exit 99; done

        """

    /// Runs `opscript --attach` with a script, then shell commands. `$pid` is the process; `say TEXT` sends lines to it.
    private func attach(to script: String, _ commands: String) throws -> Outcome {
        try home.write(script, to: "run.lua")
        return try Command.shell(
            """
            cd "$1"; "$OPSCRIPT" --attach run.lua >printed 2>&1 & pid=$!
            say() { printf '%b\\n' "$1" | "$OPSCRIPT" attach $pid 2>&1 | tail -n +2; }

            """ + Self.wait + commands, home.path
        ).environment(["XDG_RUNTIME_DIR": home.path]).run()
    }

    /// Ten operations that never end by themselves, one at a time; the main state waits for them.
    private static let busy = """
        local queue = opscript.OperationQueue.new { name = "a queue", maxConcurrentOperationCount = 1 }
        for i = 1, 10 do
          queue:addOperation(opscript.Operation.new { name = "job " .. i, main = function() while true do end end })
        end
        counter = 41

        """
    private static let waiting = busy + "queue:waitUntilAllOperationsAreFinished()"
    private static let hanging = busy + "while true do end"

    @Test("What was typed is evaluated in the main state while that waits, and its output comes back")
    func evaluates() throws {
        let outcome = try attach(
            to: Self.waiting,
            #"""
            say '1 + 1, { a = 1 }\ncounter = counter + 1\nprint(counter, nil) return 5\n=7\nfor i = 1, 2 do\nprint(i)\nend'
            say 'error "boom"\nlocal x; print("before") x.y = 1\nnil.x\nfunction f() error { } end\nf()'
            say 'print == nil, type(opscript), counter'
            kill -INT $pid; wait $pid; echo "status $?"
            cat printed
            """#)
        #expect(
            outcome.text == """
                2\t{ a = 1 }
                42\tnil
                5
                7
                1
                2
                stdin:1: boom
                  error "boom"
                before
                stdin:1: attempt to index a nil value (upvalue 'x')
                  local x; print("before") x.y = 1
                        ^
                stdin:1: unexpected symbol near 'nil'
                  nil.x
                  ^
                (error object is a table value)
                stack traceback:
                \tstdin:1: in function 'f'
                false\ttable\t42
                status 130
                opscript: 'opscript attach \(process(in: outcome))' shows and changes this run

                """)
    }

    /// The number in the line that `--attach` prints.
    private func process(in outcome: Outcome) -> String {
        outcome.text.split(separator: "'opscript attach ").last?.split(separator: "'").first.map(String.init) ?? "?"
    }

    @Test("Commands show and change a run whose main state hangs")
    func commands() throws {
        let outcome = try attach(
            to: Self.hanging,
            """
            until say ':ops' | grep -q "'job 1': executing"; do :; done
            say ':queues\\n:why job 2\\n:why job 1'
            say ':cancel job 2\\n:priority job 10 veryHigh\\n:maximum a queue 2\\n:maximum a queue 1'
            say ':interrupt job 1' >interrupted
            until say ':ops' | grep -q "'job 10': executing"; do :; done
            cat interrupted
            say ':ops' | head -3
            say ':why nobody\\n:maximum nothing 3\\n:maximum a queue many\\n:priority job 10 highest\\n:why\\n:ops now\\n:nothing'
            kill -INT $pid; wait $pid; echo "status $?"
            """)
        let commands = ":help, :ops, :queues, :why NAME, :cancel NAME, :interrupt NAME, :maximum QUEUE N, :priority NAME P, :detach"
        #expect(
            outcome.text == """
                queue 'a queue': 10 operations, 1 executing, at most 1 at once
                'job 2': it is in queue 'a queue', whose maximum is reached by 'job 1'
                'job 1': it runs
                'job 2': cancelled
                'job 10': has the priority veryHigh
                'a queue': at most 2 at once
                'a queue': at most 1 at once
                'job 1': interrupted
                """ + "\n" + outcome.lines.drop { !$0.hasPrefix("'job 1': interrupted") }.dropFirst().prefix(3).joined(separator: "\n")
                    + """

                    no unfinished operation is called 'nobody'; :ops shows them
                    no queue that has operations is called 'nothing'; :queues shows them
                    'many' is no maximum: it is a number of operations, or -1 for as many as there are workers
                    there is no priority 'highest': it is veryLow, low, normal, high or veryHigh
                    usage: :why NAME
                    :ops takes no argument
                    there is no command ':nothing'; there are \(commands)
                    status 130

                    """)
    }

    @Test("Several prompts are attached at once; a run that ends says so, and leaves no socket")
    func several() throws {
        let outcome = try attach(
            to: "opscript.after(1e9, function() end)",
            """
            mkfifo in; "$OPSCRIPT" attach $pid <in >first 2>&1 & exec 3>in
            "$OPSCRIPT" attach $pid <in >second 2>&1 3>&- &
            echo 'x = 1' >&3
            until say 'x' | grep -q 1; do :; done
            until say 'os.exit(7)' | grep -q ended; do :; done
            wait $pid; echo "status $?"; exec 3>&-; wait
            tail -qn 1 first second
            ls opscript
            """)
        #expect(outcome.lines.count == 3 && outcome.lines.first == "status 7")
        #expect(outcome.lines.dropFirst().allSatisfy { $0.hasPrefix("attached to process ") })
    }

    /// The signal is sent when the script waits: a process that a shell has started in the background ignores the signal until the script runs.
    @Test("What comes while the run is being interrupted is not evaluated, and does not end the run when the prompt leaves")
    func interruptedRun() throws {
        let outcome = try attach(
            to: Self.busy + "for i = 1, 2 do print(pcall(queue.waitUntilAllOperationsAreFinished, queue)) end",
            #"""
            until say 'counter' | grep -q 41; do :; done
            kill -INT $pid
            until say 'counter' | tee said | grep -q being; do :; done
            cat said; for i in $(seq 10); do say ":interrupt job $i" >/dev/null; done
            wait $pid; echo "status $?"; grep -v attach printed
            """#)
        #expect(outcome.text == "the run is being interrupted\nstatus 0\nfalse\tinterrupted!\ntrue\ttrue\n")
    }

    @Test("The seventeenth prompt is told that there are sixteen already")
    func tooMany() throws {
        let outcome = try attach(
            to: Self.hanging,
            """
            mkfifo in
            for i in $(seq 16); do "$OPSCRIPT" attach $pid <in >prompt$i & done
            exec 3>in
            until [ $(cat prompt* | grep -c 'attached to') = 16 ]; do :; done
            "$OPSCRIPT" attach $pid </dev/null; echo "status $?"
            exec 3>&-; kill -9 $pid; wait
            """)
        #expect(outcome.lines == ["16 prompts are attached already", "status 0"])
    }

    @Test("Whoever cannot attach is told why")
    func errors() throws {
        let outcome = try attach(
            to: Self.waiting,
            """
            exec 2>&1
            "$OPSCRIPT" --attach run.lua >/dev/null 2>&1 & other=$!
            until "$OPSCRIPT" attach $other </dev/null >/dev/null 2>&1; do kill -0 $other || exit 98; done
            "$OPSCRIPT" attach 2>&1 | sed -E 's/^  [0-9]+ .*opscript --attach/  PID opscript --attach/'
            kill -9 $other; wait $other 2>/dev/null
            "$OPSCRIPT" attach </dev/null | grep -c attached
            ls opscript | wc -l
            kill -9 $pid; wait $pid 2>/dev/null
            "$OPSCRIPT" attach; "$OPSCRIPT" attach x; "$OPSCRIPT" attach 1 2; "$OPSCRIPT" attach 1; echo "status $?"
            chmod 755 opscript; "$OPSCRIPT" --attach run.lua; echo "status $?"
            "$OPSCRIPT" --attach=1 run.lua 2>&1 | head -n 1
            """)
        let path = Paths.opscript
        #expect(
            outcome.text == """
                \(path): several processes can be attached to, so say which:
                  PID opscript --attach run.lua
                  PID opscript --attach run.lua
                1
                1
                \(path): no process of yours can be attached to: start it with 'opscript --attach script.lua'
                \(path): usage: opscript attach [PID]
                \(path): usage: opscript attach [PID]
                \(path): process 1 cannot be attached to: it was not started by you with 'opscript --attach'
                status 1
                \(path): --attach: '\(home.path)/opscript' must be a directory that only its owner, you, may use
                status 1
                \(path): unrecognized option '--attach=1'

                """)
    }

    @Test("On a terminal: Ctrl-C stops what was sent, Ctrl-D leaves the process running")
    func terminal() throws {
        let terminal = try Terminal(home: home)
        // `attach` gets the process, because it might also find the prompts of other tests.
        try home.write(Self.waiting, to: "waiting.lua")
        try home.write(Self.hanging, to: "hanging.lua")
        for (file, sent) in [("waiting", "io.open('begun', 'w'):close() while true do end"), ("hanging", "counter")] {
            try terminal.enter("clear; cd \(home.path); \"$OPSCRIPT\" --attach \(file).lua 2>/dev/null & pid=$!")
            try terminal.enter("clear; until \"$OPSCRIPT\" attach $pid 2>/dev/null </dev/null >out; do :; done; \"$OPSCRIPT\" attach $pid")
            try terminal.expect { $0.last?.hasSuffix(">") == true && $0.last != ">" }
            let prompt = try terminal.rows.last ?? ""
            try terminal.type(":pri")
            try terminal.press("Tab")
            try terminal.expect { $0.last == "\(prompt) :priority" }
            try terminal.press("C-c")
            try terminal.expect { $0.last == prompt }
            try terminal.enter(sent)
            try terminal.expect { $0.last != prompt }
            if file == "waiting" { try terminal.expect { _ in Paths.read(home.path + "/begun") != nil } }
            // A key that is pressed too early is no signal yet, so the test presses it until the prompt is back.
            repeat { try terminal.press("C-c") } while try terminal.rows.last != prompt
            let shown = try terminal.rows.joined(separator: "\n")
            #expect(shown.contains(file == "waiting" ? "interrupted!" : "given up: the main state was busy"))
            try terminal.enter(":why job 1")
            try terminal.expect(last: "'job 1': it runs", prompt)
            try terminal.press("C-d")
            try terminal.expectShell(status: 0)
            try terminal.enter("clear; \"$OPSCRIPT\" attach $pid")
            try terminal.expect { $0.last == prompt }
            try terminal.enter(":interrupt job 1")
            try terminal.expect(last: "'job 1': interrupted", prompt)
            try terminal.enter(":detach")
            try terminal.expectShell(status: 0)
            try terminal.enter("kill -9 $pid; wait; clear")
            try terminal.expect { $0.last == "$" }
        }
    }

    @Test("A prompt can be attached to without an option, and a prompt that waits notices that the process ends")
    func prompt() throws {
        let host = try Terminal(home: home)
        let guest = try Terminal(home: home)
        try host.startPrompt()
        try guest.enter("clear; \"$OPSCRIPT\" attach")
        try guest.expect { $0.last?.hasSuffix(">") == true && $0.last != ">" }
        let prompt = try guest.rows.last ?? ""
        try host.type("x")
        try guest.enter("x = 'from the guest'")
        try guest.expect(last: "\(prompt) x = 'from the guest'", prompt)
        try guest.enter("(function()")
        try guest.expect { $0.last == "\(prompt.dropLast())>>" }
        try guest.press("C-c")
        try guest.expect { $0.last == prompt }
        try host.press("Enter")
        try host.expect(last: "> x", "from the guest", ">")
        try guest.type("half a li")
        try host.press("C-d")
        try host.expectShell(status: 0)
        try guest.expect { $0.contains("the run has ended") }
        try guest.expectShell(status: 0)
    }
}
