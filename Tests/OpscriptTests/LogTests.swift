import Testing

/// `--log`: the lines about the operations of a run.
@Suite struct LogTests {
    private static let script = #"""
        local Operation = opscript.Operation
        local queue = opscript.OperationQueue.new { name = "q", maxConcurrentOperationCount = 1 }
        local a = Operation.new { name = "a\27[2J", main = function() return opscript.sh("exit 3"):wait().status end }
        local b = Operation.new { name = "b", dependencies = { a }, main = function() error("no such thing") end }
        local c = Operation.new { name = "c", dependencies = { b }, main = function() end }
        c:cancel()
        queue:addOperations({ a, b, c }, true)
        print(b.error.message)
        """#

    /// Runs the script, checks the form of the lines, and returns what they say.
    private func messages(_ options: String...) throws -> [String] {
        var command = Command.opscript()
        command.arguments = options + ["-"]
        let outcome = try command.input(Self.script).run()
        #expect(outcome.status == 0)
        let lines = String(decoding: outcome.errors, as: UTF8.self).split(separator: "\n")
        return lines.map { line in
            let match = line.wholeMatch(of: /\[ *\d+\.\d{6}\] (?:main|worker \d+|thread \d+): (.*)/)
            #expect(match != nil, "\(line)")
            return match.map { String($0.1).replacing(/\d\.\d{6} s/, with: "N s") } ?? ""
        }
    }

    @Test("Each level of --log says more than the level before")
    func levels() throws {
        #expect(try messages("--log", "error") == ["'b' failed: stdin:4: no such thing"])
        #expect(try messages("--log=warning") == ["'c' was cancelled", "'b' failed: stdin:4: no such thing"])
        let info = try messages("--log=info")
        #expect(info.contains("queue 'q' runs at most 1 at once"))
        #expect(info.contains("program 'exit 3' was started by 'a?[2J'"))
        #expect(info.contains("program 'exit 3' ended: exited with status 3"))
        #expect(!info.contains("'a?[2J' started"))
        let debug = try messages("--log=debug")
        for message in [
            "'a?[2J' was added to queue 'q'", "'a?[2J' started", "'a?[2J' finished after N s", "'b' is ready", "'c' was cancelled",
        ] {
            #expect(debug.count { $0 == message } == 1, "\(message)")
        }
        #expect(Set(info).isSubset(of: debug))
    }

    @Test("A wrong level is an error that lists the levels", arguments: [["--log"], ["--log=all", "-"], ["--log=", "-"]])
    func wrongLevel(_ arguments: [String]) throws {
        var command = Command.opscript()
        command.arguments = arguments
        let outcome = try command.run()
        #expect(outcome.status == 1)
        #expect(
            String(decoding: outcome.errors, as: UTF8.self).hasPrefix("opscript: '--log' needs a level: error, warning, info or debug\n"))
    }
}
