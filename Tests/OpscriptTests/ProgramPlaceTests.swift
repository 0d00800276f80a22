import Testing

/// How many programs the command runs at once.
@Suite("How many programs run at once")
struct ProgramPlaceTests {
    /// Runs a script in a folder of its own.
    private func run(_ arguments: [String], limit: String = "true", _ script: String) throws -> Outcome {
        var command = Command.shell(
            "\(limit); folder=$(mktemp -d) && cd \"$folder\" && { \"$OPSCRIPT\" \"$@\" -; status=$?; rm -r \"$folder\"; exit $status; }")
        command.arguments += arguments
        return try command.input(script).run()
    }

    @Test("-j is --workers, and bounds the programs of operations", arguments: [["-j", "2"], ["-j2"], ["--workers=2"]])
    func jobs(arguments: [String]) throws {
        let outcome = try run(
            arguments,
            """
            local q = opscript.OperationQueue.new()
            for i = 1, 12 do
              q:addOperation(function()
                opscript.sh("touch run." .. i .. "; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; ls run.* | wc -l >> seen; rm run." .. i):wait()
              end)
            end
            q:waitUntilAllOperationsAreFinished()
            local most = 0
            for line in io.lines "seen" do most = math.max(most, tonumber(line)) end
            print(most <= 2)
            """)
        #expect(outcome == Outcome(status: 0, output: Array("true\n".utf8), errors: []), "\(outcome)")
    }

    @Test("-j needs a positive number", arguments: ["0", "-1", "x", "2x"])
    func misuse(count: String) throws {
        for arguments in [["-j", count], ["-j\(count)"]] {
            let outcome = try run(arguments, "")
            #expect(outcome.status == 1 && outcome.errorText.contains("'-j' needs a positive number, got '\(count)'"), "\(outcome)")
        }
    }

    @Test("A lack of descriptors or processes is no error while other programs run")
    func shortage() throws {
        let outcome = try run(
            ["-j2"], limit: "ulimit -n 48",
            """
            local q, ops, good = opscript.OperationQueue.new(), {}, 0
            for i = 1, 60 do
              ops[i] = q:addOperation(function() return opscript.sh({ "sleep 0.1; echo " .. i, slots = 0 }):wait().stdout end)
            end
            q:waitUntilAllOperationsAreFinished()
            for i, op in ipairs(ops) do if op.result == i .. "\\n" then good = good + 1 end end
            print(good)
            """)
        #expect(outcome == Outcome(status: 0, output: Array("60\n".utf8), errors: []), "\(outcome)")
    }

    @Test("A lack of descriptors is an error if no other program runs")
    func shortageAlone() throws {
        let outcome = try run(
            [], limit: "ulimit -n 48",
            """
            local files = {}
            repeat files[#files + 1] = io.open "/dev/null" until #files > 0 and not io.open "/dev/null"
            print(select(2, pcall(opscript.process, { "true" })))
            """)
        #expect(outcome.text.hasSuffix("cannot start 'true': Too many open files\n"), "\(outcome)")
    }
}
