import Testing

/// Operations that ask the store, through the command: each run is a process of its own.
@Suite("Resuming") struct ResumeTests {
    /// A chain of steps. Each notes its number in the file `ran`. With `DIES` set to a number, that step ends the process.
    private static let chain = """
        local folder = arg[1]
        local function work(op, n, previous)
            local file <close> = assert(io.open(folder .. "/ran", "a"))
            file:write(n, " ")
            file:flush()
            if os.getenv "DIES" == tostring(n) then os.execute("kill -9 " .. io.open("/proc/self/stat"):read "n") end
            return { n = n, sum = previous and previous.result.sum + n or n, [{ n }] = "table", text = ("x"):rep(n) }
        end
        local queue, last = opscript.OperationQueue.new(), nil
        for n = 1, 20 do
            local op = opscript.Operation.new { memoize = true, main = work, arguments = { n, last }, dependencies = { last } }
            queue:addOperation(op)
            last = op
        end
        queue:waitUntilAllOperationsAreFinished()
        print(last.result.n, last.result.sum, last.result.text)
        """

    private func run(_ folder: ScratchDirectory, workers: String = "2", dies: Int? = nil, _ options: [String] = []) throws -> Outcome {
        var command = Command.opscript("--store", "\(folder.path)/store", "--workers", workers)
        command.arguments += options + ["-", folder.path]
        return try command.input(Self.chain).environment(dies.map { ["DIES": "\($0)"] } ?? [:]).run()
    }

    private func ran(_ folder: ScratchDirectory) -> String { String(decoding: Paths.read("\(folder.path)/ran") ?? [], as: UTF8.self) }

    private static let result = "20\t210\txxxxxxxxxxxxxxxxxxxx\n"

    @Test("A run that was killed goes on with the steps that are missing")
    func resuming() throws {
        let folder = try ScratchDirectory()
        #expect(try run(folder, dies: 8).status == 128 + 9)
        #expect(ran(folder) == "1 2 3 4 5 6 7 8 ")
        #expect(try run(folder, workers: "1", dies: 13).status == 128 + 9)
        #expect(ran(folder) == "1 2 3 4 5 6 7 8 8 9 10 11 12 13 ")
        #expect(try run(folder, workers: "4").text == Self.result)
        #expect(ran(folder) == "1 2 3 4 5 6 7 8 8 9 10 11 12 13 13 14 15 16 17 18 19 20 ")
    }

    @Test("Keys are the same in each process, with any number of workers")
    func stableKeys() throws {
        let folder = try ScratchDirectory()
        #expect(try run(folder).text == Self.result)
        let first = ran(folder)
        for workers in ["1", "2", "4"] { #expect(try run(folder, workers: workers).text == Self.result) }
        #expect(ran(folder) == first)
    }

    @Test("A trace, a report and a log mark what was skipped")
    func recordings() throws {
        let folder = try ScratchDirectory()
        _ = try run(folder)
        let outcome = try run(folder, ["--trace", "\(folder.path)/trace.json", "--report", "\(folder.path)/report.html", "--log", "debug"])
        #expect(outcome.text == Self.result, "\(outcome)")
        #expect(outcome.errorText.split(separator: " is skipped, because its work is done", omittingEmptySubsequences: false).count == 21)
        let trace = String(decoding: try #require(Paths.read("\(folder.path)/trace.json")), as: UTF8.self)
        #expect(trace.split(separator: "\"outcome\":\"skipped\"", omittingEmptySubsequences: false).count == 21)
        let report = String(decoding: try #require(Paths.read("\(folder.path)/report.html")), as: UTF8.self)
        #expect(report.contains("\"skippedCount\":20"))
    }
}
