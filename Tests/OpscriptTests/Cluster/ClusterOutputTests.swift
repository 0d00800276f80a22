import Glibc
import TestSupport
import Testing

extension ClusterTests {
    @Suite("What operations write on a cluster", .serialized) struct Output {
        @Test("Lines come whole, in the order of their operation, before it has finished, to the stream they were written to")
        func lines() async throws {
            let outcome = try await TestCluster.run { cluster in
                try cluster.run(
                    """
                    local queue = opscript.OperationQueue.new()
                    for i = 1, 40 do
                      queue:addOperation(function()
                        for j = 1, 25 do print(i, j, ("x"):rep(100)) end
                        io.stderr:write(i, " to stderr\\n")
                      end)
                    end
                    queue:waitUntilAllOperationsAreFinished()
                    print "all"
                    """)
            }
            #expect(outcome.status == 0 && outcome.lines.last == "all" && outcome.lines.count == 1001, "\(outcome)")
            var next = [Int](repeating: 1, count: 41)
            for line in outcome.lines.dropLast() {
                let parts = line.split(separator: "\t")
                guard parts.count == 3, let i = Int(parts[0]), let j = Int(parts[1]), (1...40).contains(i) else {
                    Issue.record("a line is not whole: \(line)")
                    continue
                }
                #expect(j == next[i] && parts[2].count == 100, "\(line)")
                next[i] += 1
            }
            #expect(Set(outcome.errorText.split(separator: "\n").map(String.init)) == Set((1...40).map { "\($0) to stderr" }), "\(outcome)")
        }

        @Test("A line that is not complete comes at the end of its operation")
        func partialLines() async throws {
            let outcome = try await TestCluster.run { cluster in
                try cluster.run(
                    """
                    local queue = opscript.OperationQueue.new()
                    queue:addOperation(function() io.write("a", "b") io.write "c\\nd" end):waitUntilFinished()
                    queue:addOperation(function() for i = 1, 200000 do io.write(i % 10) end end):waitUntilFinished()
                    """)
            }
            #expect(outcome.lines.count == 3 && Array(outcome.lines.prefix(2)) == ["abc", "d"], "\(outcome.lines.prefix(4))")
            #expect(outcome.lines.last?.count == 200_000)
        }

        @Test("The output of commands of 'os.execute' arrives at home while they run")
        func commands() async throws {
            let (outcome, run) = try await TestCluster.run(workers: 1, slots: 1) { cluster in
                let directory = try ScratchDirectory()
                let command = cluster.command(
                    """
                    opscript.OperationQueue.new():addOperation(function()
                      print(os.execute "echo out; echo err >&2; exit 3")
                      print(os.execute "echo first >&2; echo second >/dev/stderr; echo third >&2")
                      print(os.execute "yes | head -c 1000000")
                      local file = io.popen("head -n 1", "w")
                      print(pcall(function() assert(file:write(("x\\n"):rep(100000))) assert(file:flush()) end))
                      os.execute "(sleep 1000; echo later) & echo $! >pid"
                      print(os.execute "kill -0 $(cat pid) && kill $(cat pid); rm pid")
                      print(os.execute())
                    end):waitUntilFinished()
                    """)
                let outcome = try command.directory(directory.path).run()
                let run = try cluster.start(
                    """
                    opscript.OperationQueue.new():addOperation(function() os.execute "echo ready; sleep 1000" end):waitUntilFinished()
                    """)
                run.send(SIGINT)
                _ = try run.wait(seconds: 30)
                return (outcome, run.lines)
            }
            let others = outcome.lines.filter { $0 != "y" }
            let succeeded = "true\texit\t0"
            #expect(others.prefix(4) == ["out", "nil\texit\t3", succeeded, succeeded] && others.count == 7, "\(others)")
            #expect(others.dropFirst(4).first?.contains("Broken pipe") ?? false && others.suffix(2) == [succeeded, "true"], "\(others)")
            #expect(outcome.lines.count - others.count == 500_000)
            #expect(outcome.errorText == "err\nfirst\nsecond\nthird\n", "\(outcome.errorText)")
            #expect(run.contains("ready"))
        }

        @Test(
            "A script whose output has no reader ends, as at home, no matter which process writes it",
            arguments: ["print(i)", "opscript.OperationQueue.new():addOperation(function() print(i) end):waitUntilFinished()"])
        func brokenPipe(writing: String) async throws {
            let outcome = try await TestCluster.run(workers: 1) { cluster in
                let script =
                    "opscript.OperationQueue.new():addOperation(function() print(0) end):waitUntilFinished() i = 0 while true do i = i + 1 \(writing) end"
                return try Command.shell(
                    #"{ "$OPSCRIPT" --cluster "$1" -e "$2"; echo $? >&2; } | head -n 2"#, cluster.url, script
                ).run()
            }
            #expect(outcome.text == "0\n1\n" && outcome.errorText == "141\n", "\(outcome)")
        }

        @Test("'--mark-output' puts the worker's name before each line")
        func marked() async throws {
            let outcome = try await TestCluster.run(workers: 1) { cluster in
                try cluster.command(
                    """
                    local queue = opscript.OperationQueue.new()
                    queue:addOperation(function() print "one\\ntwo" io.stderr:write "three" end):waitUntilFinished()
                    print "at home"
                    """, "--mark-output"
                ).run()
            }
            #expect(outcome.text == "[w1] one\n[w1] two\nat home\n" && outcome.errorText == "[w1] three\n", "\(outcome)")
        }

        @Test("'opscript workers' lists the workers")
        func list() async throws {
            let (before, after) = try await TestCluster.run(workers: 0) { cluster in
                let before = try Command.opscript("workers", "--cluster", cluster.url).run()
                try cluster.addWorker("--slots", "3")
                try cluster.addWorker("--slots", "5")
                return (before, try Command.opscript("workers", "--cluster", cluster.url).run())
            }
            #expect(before.status == 1 && before.text.isEmpty && before.errorText.contains("no worker answers"), "\(before)")
            #expect(after.status == 0 && after.lines.count == 3 && after.text.hasPrefix("NAME "), "\(after)")
            let slots = after.lines.dropFirst().map { $0.split(separator: " ").map(String.init) }.map { [$0[0], $0[3]] }
            #expect(slots == [["w1", "3"], ["w2", "5"]], "\(after)")
        }
    }
}
