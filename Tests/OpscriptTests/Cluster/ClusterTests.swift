import TestSupport
import Testing

/// Scripts whose queues run their operations on other machines. Each test has a server and workers of its own, all on this machine, so of each
/// suite one test runs at a time.
@Suite("Clusters") struct ClusterTests {
    @Suite("Scripts on a cluster", .serialized) struct Scripts {
        /// The folder of the scripts and their modules. The workers run in another folder.
        private static let folder = Paths.package + "/Tests/OpscriptTests/ClusterScripts"

        private struct Comparison: Sendable {
            let script: String
            let home, cluster: Outcome
        }

        /// Pairs of outcomes, one for each run.
        private static func compare(_ scripts: [String], runs: Int = 1, on cluster: TestCluster) throws -> [Comparison] {
            try scripts.flatMap { script in
                let (homeStore, clusterStore) = (try ScratchDirectory(), try ScratchDirectory())
                return try (1...runs).map { _ in
                    let home = Command.opscript("--store", homeStore.path, "\(script).lua").directory(folder)
                    let away = Command.opscript("--store", clusterStore.path, "--cluster", cluster.url, "\(script).lua").directory(folder)
                    return Comparison(script: script, home: try home.run(), cluster: try away.run())
                }
            }
        }

        @Test("A script does on a cluster what it does at home, and its operations run at the workers")
        func sameAsAtHome() async throws {
            let (comparisons, list) = try await TestCluster.run { cluster in
                let comparisons = try Self.compare(["results", "errors", "graphs", "kinds", "nested"], on: cluster)
                return (comparisons, try Command.opscript("workers", "--cluster", cluster.url).run())
            }
            for comparison in comparisons {
                #expect(comparison.cluster == comparison.home, "\(comparison.script)")
                #expect(comparison.home.errorText.contains("stack traceback") == false, "\(comparison.home)")
            }
            let ended = list.lines.dropFirst().compactMap { Int($0.split(separator: " ").dropFirst(5).first ?? "") }
            #expect(ended.count == 2 && ended.reduce(0, +) > 100, "\(list)")
        }

        @Test("Large values go to workers and back") func largeValues() async throws {
            let outcome = try await TestCluster.run(workers: 1) { cluster in
                try cluster.run(
                    """
                    local data = ("abcdefg"):rep(500000)
                    local queue = opscript.OperationQueue.new()
                    local op = queue:addOperation(function(_, text) return text:upper() .. #text end, data)
                    op:waitUntilFinished()
                    print(op.result == data:upper() .. #data)
                    """)
            }
            #expect(outcome.text == "true\n" && outcome.errorText == "", "\(outcome)")
        }

        @Test("A worker gets a large frozen value once, and all its operations have the same one")
        func frozenOnce() async throws {
            let outcome = try await TestCluster.run(workers: 0) { cluster in
                try cluster.addWorker("--slots", "1")
                return try cluster.run(
                    """
                    local rows = {}
                    for i = 1, 50000 do rows[i] = { name = "row " .. i, n = i } end
                    local frozen, ops = opscript.freeze(rows), {}
                    local queue = opscript.OperationQueue.new()
                    local function look(_, i)
                      local seen = package.loaded.seen or {}
                      package.loaded.seen = seen
                      seen[frozen] = true
                      local count = 0
                      for _ in pairs(seen) do count = count + 1 end
                      return frozen[i].name, count
                    end
                    for i = 1, 200 do ops[i] = queue:addOperation(look, i) end
                    local most = 0
                    for i, op in ipairs(ops) do
                      op:waitUntilFinished()
                      assert(op.results[1] == "row " .. i, op.error)
                      most = math.max(most, op.results[2])
                    end
                    print(most)
                    """)
            }
            #expect(outcome.text == "1\n" && outcome.errorText == "", "\(outcome)")
        }

        @Test("Work that is done is not done again")
        func memoized() async throws {
            let comparisons = try await TestCluster.run { try Self.compare(["memoized"], runs: 2, on: $0) }
            for comparison in comparisons { #expect(comparison.cluster == comparison.home) }
            #expect(comparisons.last?.cluster.text.contains("step 4\ttrue\tnil\t16\t100000\tstored 4") ?? false, "\(comparisons)")
        }

        @Test("What cannot go to a worker is found by the place of its function if its operation has no name")
        func refusalOfUnnamed() async throws {
            let outcome = try await TestCluster.run(workers: 1) { cluster in
                try cluster.run(
                    """
                    local queue, channel = opscript.OperationQueue.new(), opscript.channel()
                    local frozen = opscript.freeze { queue:addOperation(function() end) }
                    queue:addOperation(function() return channel end)
                    queue:addOperation(function() return frozen end):waitUntilFinished()
                    """)
            }
            #expect(
                outcome.errorText.contains("upvalue 'channel' of function 'main' of an unnamed Operation <stdin:3> is a channel"),
                "\(outcome)")
            #expect(outcome.errorText.contains("an unnamed Operation <stdin:4> has a frozen value"), "\(outcome)")
        }

        @Test(
            "What cannot go to a worker is named in the error",
            arguments: [
                (
                    "local q = Queue.new()", "return q.name",
                    "upvalue 'q' of function 'main' of 'it' is a queue, which stays where it was made"
                ),
                (
                    "local c = opscript.channel()", "return c",
                    "upvalue 'c' of function 'main' of 'it' is a channel, which stays where it was made: pass values, or return them"
                ),
                (
                    "local o = Operation.new { name = 'other' }", "return o.result",
                    "upvalue 'o' of function 'main' of 'it' is 'other', which has not finished"
                ),
                (
                    "local f = opscript.freeze { { Operation.new() } }", "return f[1]",
                    "'it' has a frozen value with an operation or another object in it, which cannot be sent to a cluster"
                ),
                (
                    "local g = opscript.GroupOperation.new() Queue.new { cluster = false }:addOperation(g) g:waitUntilFinished()",
                    "return g.isFinished", "upvalue 'g' of function 'main' of 'it' is a group, which stays where it was made"
                ),
            ])
        func refusals(definition: String, body: String, message: String) async throws {
            let outcome = try await TestCluster.run(workers: 1) { cluster in
                try cluster.run(
                    """
                    local Operation, Queue = opscript.Operation, opscript.OperationQueue
                    \(definition)
                    local it = Operation.new { name = "it", main = function() \(body) end }
                    Queue.new():addOperation(it)
                    it:waitUntilFinished()
                    print(it.error.kind, it.error)
                    """)
            }
            #expect(outcome.status == 0 && outcome.text.hasPrefix("error\t\(message)"), "\(outcome)")
        }

        @Test("What only the script can do is refused at a worker, with the reason")
        func refusalsAtWorkers() async throws {
            let outcome = try await TestCluster.run(workers: 1) { cluster in
                try cluster.run(
                    """
                    local queue = opscript.OperationQueue.new()
                    local exits = queue:addOperation(function() os.exit(3) end)
                    local nested = queue:addOperation(function() opscript.OperationQueue.new { cluster = true } end)
                    queue:waitUntilAllOperationsAreFinished()
                    print(exits.error)
                    print(nested.error)
                    """)
            }
            #expect(outcome.text.contains("os.exit cannot end the script from a worker of a cluster"), "\(outcome)")
            #expect(outcome.text.contains("a worker of a cluster cannot use the cluster"), "\(outcome)")
        }

        @Test("A queue may name its cluster, or stay at home")
        func options() async throws {
            let (outcome, workers) = try await TestCluster.run(workers: 1) { cluster in
                let outcome = try Command.opscript("-", cluster.url).input(
                    """
                    local Queue = opscript.OperationQueue
                    local function process(options)
                      local op = Queue.new(options):addOperation(function() return (io.open "/proc/self/stat":read "n") end)
                      op:waitUntilFinished()
                      return op.result
                    end
                    print(process { cluster = arg[1] }, process { cluster = false } == process {}, process {} == process { cluster = arg[1] })
                    print(select(2, pcall(Queue.new, { cluster = true })))
                    print(select(2, pcall(Queue.new, { cluster = arg[1], delivery = "twice" })))
                    print(select(2, pcall(Queue.new, { cluster = arg[1], maxDeliveries = 0 })))
                    """
                ).run()
                return (outcome, cluster.allWorkers.map(\.identifier))
            }
            #expect(outcome.status == 0 && outcome.lines.count == 4, "\(outcome)")
            #expect(outcome.lines.first == "\(workers[0])\ttrue\tfalse", "\(outcome)")
            #expect(outcome.lines.dropFirst().allSatisfy { $0.contains("cluster") || $0.lowercased().contains("deliver") }, "\(outcome)")
        }

        /// The size of a value. The worker and the script each have one copy in memory and one in a file. Two copies in memory would not fit.
        private static let large = TestLength.isLong ? 1 << 30 : 288 << 20
        /// The stacks of threads, and memory that the C library reserves for threads, count as data: some 200 MB, and 8 MB for each further thread.
        private static let room = large + (256 << 20)

        @Test("A large value needs its memory once at a worker")
        func largeArgument() async throws {
            let outcome = try await TestCluster.run(workers: 0) { cluster in
                try cluster.addWorker("--slots", "1", memory: Self.room)
                return try cluster.run(
                    """
                    local large = string.rep("0123456789abcdef", \(Self.large / 16))
                    local op = opscript.OperationQueue.new():addOperation(function() return #large, large:sub(-20) end)
                    op:waitUntilFinished()
                    print(op.error, op.results[1], op.results[2])
                    """)
            }
            #expect(outcome.text == "nil\t\(Self.large)\tcdef0123456789abcdef\n", "\(outcome)")
        }

        @Test("A large result needs its memory once at home")
        func largeResult() async throws {
            let outcome = try await TestCluster.run(workers: 1, slots: 1) { cluster in
                let script = cluster.command(
                    """
                    local function body() return string.rep("0123456789abcdef", \(Self.large / 16)) end
                    local op = opscript.OperationQueue.new():addOperation(body)
                    op:waitUntilFinished()
                    local result = op.result
                    print(op.error, #result, result:sub(-20))
                    """)
                return try script.limited(toDataOf: Self.room).run()
            }
            #expect(outcome.text == "nil\t\(Self.large)\tcdef0123456789abcdef\n", "\(outcome)")
        }
    }
}
