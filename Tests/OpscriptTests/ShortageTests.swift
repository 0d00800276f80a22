import Glibc
import Testing

@Suite("Descriptors, threads and memory: what programs inherit, and what the command says when one is lacking")
struct ShortageTests {
    private static let ways = [
        "opscript.run(list)", "opscript.run { 'sh', '-c', list }", "opscript.sh { list, stdout = 'pipe' }:read 'a'",
        "opscript.process { 'sh', '-c', list, stdout = 'pipe' }:read 'a'", "io.popen(list):read 'a'",
        "os.execute([[sh -c ']] .. list .. [[' >]] .. path) and path",
    ]

    /// A shell whose `ulimit` has all limits, and which can close each descriptor.
    private static func bash(_ script: String, _ arguments: String...) -> Command {
        Command(
            program: "bash", name: "bash", arguments: ["-c", script, "bash"] + arguments, environment: ["OPSCRIPT": Paths.opscript])
    }

    @Test("A program that a script or a body starts inherits no descriptor but 0, 1 and 2")
    func inherited() throws {
        let directory = try ScratchDirectory()
        var command = Self.bash(
            // The shell that runs the test may have others, which are its caller's.
            #"""
            for number in $(ls /proc/$$/fd); do [ "$number" -le 2 ] || eval "exec $number>&-"; done
            exec "$OPSCRIPT" --status 127.0.0.1:0 --attach --trace "$1/trace.json" --report "$1/report.html" --graph "$1/graph.dot" \
            --store "$1/store" -e "$2"
            """#, directory.path,
            """
            local path = '\(directory.path)/list'
            local function look()
                local list, found = 'ls /proc/$$/fd; :', {}
                local function add(text)
                    local file <close> = text == path and io.open(path) or nil
                    found[#found + 1] = (file and file:read 'a' or text):gsub('%s+', ' '):gsub(' $', '')
                end
                \(Self.ways.map { "add(\($0))" }.joined(separator: "\n"))
                return table.concat(found, '|')
            end
            local queue = opscript.OperationQueue.new()
            print(look())
            print(queue:addOperation(look):get())
            """)
        command.environment["XDG_RUNTIME_DIR"] = directory.path
        command.environment["HOME"] = directory.path
        let outcome = try command.run()
        let script = Array(repeating: "0 1 2", count: Self.ways.count)
        // A program of an operation has the jobserver of GNU make, too.
        let body = Array(repeating: "0 1 2 3 4", count: 4) + script.dropFirst(4)
        #expect(outcome.status == 0 && outcome.lines == [script, body].map { $0.joined(separator: "|") }, "\(outcome)")
    }

    /// Scripts that need a thread, a loop or a program, and parts of the message about what lacks.
    private static let scripts: [(script: String, causes: [String])] = [
        ("opscript.after(0, function() print 'ran' end)", ["cannot start the thread for timers and processes"]),
        ("opscript.OperationQueue.new():addOperation(function() print 'ran' end)", ["the system cannot start a thread"]),
        ("opscript.run 'true' print 'ran'", ["cannot start 'true'"]),
        (
            "opscript.OperationQueue.new():addOperation(opscript.Operation.new { timeout = 5, main = function() print 'ran' end })",
            ["cannot start the thread for timers and processes", "the system cannot start a thread"]
        ),
    ]

    private func run(_ script: String, under limit: String) throws -> Outcome {
        try Self.bash(#"\#(limit); exec "$OPSCRIPT" -e "$1""#, script).run()
    }

    /// Whether the script ran, or the command named what is lacking, with the status 1.
    private func expectRunOrError(_ outcome: Outcome, _ causes: [String], _ limit: String) {
        let hasRun = outcome.status == 0 && outcome.lines == ["ran"]
        let isError = outcome.status == 1 && outcome.output.isEmpty && causes.contains { outcome.errorText.contains($0) }
        #expect(hasRun || isError, "\(limit): \(outcome)")
    }

    @Test("Without free descriptors", arguments: 6...12)
    func descriptors(count: Int) throws {
        for (script, causes) in Self.scripts {
            // The shell has no use for descriptors once it is the command.
            let outcome = try run(script, under: "ulimit -n \(count)")
            expectRunOrError(outcome, causes, "ulimit -n \(count)")
        }
        if count == 6 {
            let outcome = try run(Self.scripts[0].script, under: "ulimit -n 6")
            #expect(outcome.status == 1 && outcome.errorText.contains("Too many open files"), "\(outcome)")
        }
    }

    @Test("Without memory", arguments: [60_000, 100_000, 300_000])
    func memory(kilobytes: Int) throws {
        for (script, causes) in Self.scripts {
            expectRunOrError(try run(script, under: "ulimit -v \(kilobytes)"), causes, "ulimit -v \(kilobytes)")
        }
    }

    /// A user without processes: the limit does not bind root.
    private static let user = "setpriv --reuid=60123 --regid=60123 --clear-groups"

    @Test("Without threads", .enabled(if: geteuid() == 0, "only root can become a user that has no other processes"), arguments: 1...3)
    func threads(count: Int) throws {
        // The user may have no right to look into the folder of the command.
        let directory = try ScratchDirectory()
        let copied = try Self.bash(#"chmod 755 "$1" && install -m 755 "$OPSCRIPT" "$1/opscript""#, directory.path).run()
        try #require(copied.status == 0, "\(copied)")
        for (script, causes) in Self.scripts {
            let outcome = try Self.bash(
                #"cd / && exec \#(Self.user) bash -c 'ulimit -u \#(count); exec "$1/opscript" -e "$2"' sh "$1" "$2""#, directory.path,
                script
            ).run()
            expectRunOrError(outcome, causes, "ulimit -u \(count)")
            if count == 1 { #expect(outcome.status == 1, "\(outcome)") }
        }
    }

    @Test(
        "Where /proc has nothing, scripts, operations and programs run",
        .enabled(if: geteuid() == 0, "only root can mount something over it"))
    func noProc() throws {
        let outcome = try Self.bash(
            // In a changed root, `unshare` cannot make the mounts private, so this one is made private before something hides it.
            #"""
            exec unshare --mount --propagation unchanged \
            sh -c 'mount --make-private /proc && mount -t tmpfs none /proc && exec "$OPSCRIPT" -e "$1"' sh "$1"
            """#,
            """
            local queue = opscript.OperationQueue.new()
            print(queue:addOperation(function() return io.open '/proc/self/stat' == nil, io.popen 'echo popen':read() end):get())
            print(opscript.run { 'echo', 'program' })
            """
        ).run()
        #expect(outcome.status == 0 && outcome.text == "true\tpopen\nprogram\n", "\(outcome)")
    }

    @Test("Control characters in names reach no terminal with messages and logs")
    func names() throws {
        let outcome = try Self.bash(
            #"exec "$OPSCRIPT" --log=debug -e "$1""#,
            #"""
            local name = "\27]0;title\7\27[31m\r\n\127\194\155"
            local queue = opscript.OperationQueue.new(name)
            for i = 1, 2 do queue:addOperation(opscript.Operation.new { name = name .. i, main = function() error("message", 0) end }) end
            print(select(2, pcall(function() local op = opscript.Operation.new { name = name } op:addDependency(op) end)))
            """#
        ).run()
        let place = #"operation '\x1b]0;title\x07\x1b[31m\x0d\x0a\x7f\x9b1' of queue '\x1b]0;"#
        #expect(outcome.status == 1 && outcome.errorText.contains(place), "\(outcome)")
        for character in ["\u{1b}", "\u{7}", "\r", "\u{7f}", "\u{9b}"] {
            #expect(!outcome.text.contains(character) && !outcome.errorText.contains(character), "\(outcome)")
        }
    }
}
