import Glibc
import TestSupport
import Testing

extension ClusterTests {
    @Suite("Stopping what runs on a cluster", .serialized) struct Stopping {
        @Test("Cancelling, interrupting and a timeout reach a running body within 100 ms")
        func soon() async throws {
            let outcome = try await TestCluster.run { cluster in
                try cluster.run(
                    """
                    local Operation, queue = opscript.Operation, opscript.OperationQueue.new()
                    local function measure(count, f)
                      local times = {}
                      for i = 1, count do times[i] = f() end
                      table.sort(times)
                      return times[(count + 3) // 4]
                    end
                    local function stopped(how, main)
                      return measure(16, function()
                        local op = queue:addOperation(main)
                        while not op:why() and not op.isExecuting do opscript.sleep(0.001) end
                        opscript.sleep(0.05)
                        local start = opscript.now()
                        op[how](op)
                        op:waitUntilFinished()
                        assert(op.isCancelled)
                        return opscript.now() - start
                      end)
                    end
                    print("cancel", stopped("cancel", function(op) while not op.isCancelled do end end))
                    print("wake", stopped("cancel", function() opscript.sleep(1000) end))
                    print("interrupt", stopped("interrupt", function() pcall(function() while true do end end) end))
                    print("timeout", measure(16, function()
                      local op = Operation.new { timeout = 0.1, main = function() while true do end end }
                      local start = opscript.now()
                      queue:addOperation(op):waitUntilFinished()
                      assert(op.error.kind == "timeout" and op.isCancelled)
                      return opscript.now() - start - 0.1
                    end))
                    """)
            }
            #expect(outcome.status == 0 && outcome.lines.count == 4, "\(outcome)")
            for line in outcome.lines {
                let parts = line.split(separator: "\t")
                #expect(Double(parts[1]) ?? .infinity < 0.1, "\(line)")
            }
        }

        @Test("A body that cancels its operation, and one that is interrupted, do at a worker what they do at home")
        func fromWithin() async throws {
            let script = """
                local Operation, queue = opscript.Operation, opscript.OperationQueue.new()
                local function run(options)
                  local op = queue:addOperation(Operation.new(options))
                  op:waitUntilFinished()
                  print(op.isCancelled, op.result, op.error, op.attempt)
                  return op
                end
                run { main = function(op) op:cancel() return "done" end }
                run { main = function(op) op:cancel() error "failed" end }
                run { main = function(op) op:cancel() error "failed" end, retry = { attempts = 3 } }
                local loop = "local op = ... op.began = true while true do end"
                local timed = run { main = load(loop, "=loop"), timeout = 0.2, retry = { attempts = 2 } }
                print(timed.error.kind, timed.error.traceback)
                run { main = load("local op = ... op:interrupt() while true do end", "=loop"), retry = { attempts = 2 } }
                run { main = load("local op = ... op:cancel() while true do end", "=loop"), timeout = 0.2, retry = { attempts = 3 } }
                run { main = function(op) op:cancel() error(coroutine.create(print)) end, retry = { attempts = 3 } }
                local late = Operation.new { main = load("while true do end", "=loop"), retry = { attempts = 2 } }
                queue:addOperation(late)
                while not late.isExecuting do opscript.sleep(0.001) end
                late.timeout = 0.2
                late:waitUntilFinished()
                print(late.attempt, late.isCancelled, late.error.kind)
                path = os.tmpname()
                os.remove(path)
                local op = queue:addOperation(load("io.open(path, 'w'):close() while true do end", "=loop"))
                while not io.open(path) do opscript.sleep(0.001) end
                op:interrupt()
                op:waitUntilFinished()
                print(op.isCancelled, op.error, op.error.kind, op.error.traceback)
                os.remove(path)
                """
            let (cluster, home) = try await TestCluster.run(workers: 1, slots: 1) { cluster in
                (try cluster.run(script), try Command.opscript("-").input(script).run())
            }
            #expect(cluster.status == 0 && cluster.text == home.text, "\(cluster) \(home)")
            #expect(home.text.contains("loop:1: interrupted\tinterrupted\tstack traceback:"), "\(home)")
        }

        @Test("A cancelled operation ends although there is no worker, and a signal ends the script")
        func withoutWorkers() async throws {
            let (outcome, seconds) = try await TestCluster.run(workers: 0) { cluster in
                let start = ContinuousClock.now
                let outcome = try cluster.run(
                    """
                    local queue = opscript.OperationQueue.new()
                    local first, second = queue:addOperation(print), queue:addOperation(print)
                    second:cancel()
                    first:cancel()
                    second:waitUntilFinished()
                    first:waitUntilFinished()
                    print(first.isFinished, second.isFinished, second.result)
                    for i = 1, 20 do queue:addOperation(print) end
                    io.popen("kill -TERM $PPID"):close()
                    queue:waitUntilAllOperationsAreFinished()
                    """)
                return (outcome, start.duration(to: .now))
            }
            #expect(outcome.status == 143 && outcome.text == "true\ttrue\tnil\n" && outcome.errorText.isEmpty, "\(outcome)")
            #expect(seconds < .seconds(4))
        }

        @Test("Ctrl-C of the coordinator stops the bodies at the workers", arguments: [SIGINT, SIGTERM])
        func signal(number: Int32) async throws {
            let (status, log, list) = try await TestCluster.run { cluster in
                let run = try cluster.start(
                    """
                    local queue, ops = opscript.OperationQueue.new(), {}
                    for i = 1, 4 do
                      ops[i] = queue:addOperation(function()
                        if i == 4 then print "ready" end
                        if i % 2 == 0 then while true do end else opscript.process { "sleep", "1000" }:wait() end
                      end)
                    end
                    queue:addOperation(opscript.Operation.new { main = function() print "must not run" end, dependencies = ops })
                    queue:waitUntilAllOperationsAreFinished()
                    """)
                run.send(number)
                let status = try run.wait(seconds: 30)
                return (status, run.lines, try Self.waitUntilIdle(cluster))
            }
            #expect(status == 128 + number && !log.contains { $0.contains("must not") || $0.contains("did not stop") }, "\(log)")
            #expect(list.lines.count == 3, "\(list)")
        }

        /// Asks until no worker runs anything.
        private static func waitUntilIdle(_ cluster: TestCluster) throws -> Outcome {
            let end = ContinuousClock.now + .seconds(90)
            while true {
                let list = try Command.opscript("workers", "--cluster", cluster.url).run()
                if list.lines.dropFirst().allSatisfy({ $0.split(separator: " ").dropFirst(4).first == "0" }) { return list }
                if ContinuousClock.now > end { throw CommandError(description: "the workers go on: \(list)") }
            }
        }

        @Test("Workers stop within a minute what a coordinator has sent that was killed", .enabled(if: TestLength.isLong))
        func killedCoordinator() async throws {
            let seconds = try await TestCluster.run { cluster in
                let run = try cluster.start(
                    """
                    local queue = opscript.OperationQueue.new()
                    for i = 1, 4 do queue:addOperation(function() if i == 4 then print "ready" end while true do end end) end
                    queue:waitUntilAllOperationsAreFinished()
                    """)
                run.kill()
                let start = ContinuousClock.now
                _ = try Self.waitUntilIdle(cluster)
                return start.duration(to: .now)
            }
            #expect(seconds < .seconds(60))
        }

        @Test("SIGTERM lets a worker end what it runs, and take nothing new")
        func drain() async throws {
            let (outcome, statuses) = try await TestCluster.run { cluster in
                let run = try cluster.start(
                    """
                    local queue = opscript.OperationQueue.new()
                    local function main(_, i)
                      if i == 4 then print "ready" end
                      opscript.sleep(0.3)
                      return i, (io.open "/proc/self/stat":read "n")
                    end
                    local ops = {}
                    for i = 1, 30 do ops[i] = queue:addOperation(main, i) end
                    local sum, processes = 0, {}
                    for i, op in ipairs(ops) do
                      op:waitUntilFinished()
                      sum = sum + op.result
                      processes[op.results[2]] = true
                    end
                    print("sum " .. sum)
                    """)
                cluster.allWorkers[0].send(SIGTERM)
                let status = try cluster.allWorkers[0].wait(seconds: 30)
                return (run, [status, try run.wait(seconds: 60)])
            }
            #expect(statuses == [0, 0] && outcome.lines.contains("sum 465"), "\(statuses) \(outcome.lines)")
        }

        @Test("A command of a body ends with its script")
        func commandOfABody() async throws {
            try await TestCluster.run(workers: 1, slots: 1) { cluster in
                let directory = try ScratchDirectory()
                let run = try cluster.start(
                    """
                    local path = arg[1]
                    opscript.OperationQueue.new():addOperation(function() os.execute("sleep 1000 & echo $! >" .. path .. "; wait; true") end)
                    while not (io.open(path) and io.open(path):read "a":find "\\n") do opscript.sleep(0.001) end
                    print "ready"
                    opscript.sleep(1000)
                    """, arguments: [directory.path + "/process"])
                run.send(SIGINT)
                #expect(try run.wait(seconds: 30) == 130)
                // The worker's machine may keep the process as a zombie.
                let isGone = Command.shell(
                    """
                    process=$(cat "$1"/process)
                    while kill -0 $process && ! grep -q 'State:.Z' /proc/$process/status; do sleep 0.01; done 2>"$1"/errors
                    """, directory.path)
                #expect(try isGone.run().status == 0)
            }
        }

        @Test("A body inside a C function that does not return keeps neither its slot nor its working directory")
        func leftBehind() async throws {
            let (fifo, elsewhere) = (try ScratchDirectory(), try ScratchDirectory())
            let outcome = try await TestCluster.run(workers: 1, slots: 1) { cluster in
                let run = try cluster.start(
                    """
                    os.execute "mkfifo fifo"
                    opscript.OperationQueue.new():addOperation(function()
                      print "ready"
                      io.open "fifo"
                    end)
                    opscript.sleep(1000)
                    """, directory: fifo.path)
                run.send(SIGINT)
                #expect(try run.wait(seconds: 30) == 130)
                let next = cluster.command(
                    """
                    local op = opscript.OperationQueue.new():addOperation(function() return io.popen "pwd":read "l" end)
                    op:waitUntilFinished()
                    print(op.result)
                    """)
                return try next.directory(elsewhere.path).run()
            }
            #expect(outcome.lines == [elsewhere.path], "\(outcome)")
        }

        @Test("A worker that ends leaves no files of runs that go on")
        func leftFiles() async throws {
            let directory = try ScratchDirectory()
            let (status, left) = try await TestCluster.run(workers: 0) { cluster in
                let worker = try cluster.addWorker("--directory", directory.path)
                let folder = try ScratchDirectory()
                try folder.write("a\n", to: "a.txt")
                let run = try cluster.start(
                    """
                    local Operation, queue = opscript.Operation, opscript.OperationQueue.new()
                    local function make(main) return queue:addOperation(Operation.new { inputs = { "a.txt" }, main = main }) end
                    -- Without its token, no worker can tell that it sees these files.
                    make(function() assert(os.execute "rm .opscript-token-*") end):waitUntilFinished()
                    local op = make(function() return io.popen "pwd":read "l" end)
                    op:waitUntilFinished()
                    print("ready " .. op.result)
                    opscript.sleep(600)
                    """, directory: folder.path)
                #expect(run.lines.last?.hasPrefix("ready \(directory.path)/opscript-") ?? false, "\(run.lines)")
                worker.send(SIGTERM)
                return (try worker.wait(seconds: 30), try Command.shell("ls").directory(directory.path).run().text)
            }
            #expect(status == 0 && left == "", "\(status) \(left)")
        }

        @Test("A second SIGTERM ends a worker at once, and its operations run elsewhere")
        func secondSignal() async throws {
            let directory = try ScratchDirectory()
            let (log, status) = try await TestCluster.run(workers: 1, slots: 1) { cluster in
                let run = try cluster.start(
                    """
                    local queue = opscript.OperationQueue.new()
                    local op = queue:addOperation(function()
                      local file = io.open(arg[1], "a")
                      file:write "x"
                      file:close()
                      if io.open(arg[1]):read "a" == "x" then print "ready" while true do end end
                      return "elsewhere"
                    end)
                    op:waitUntilFinished()
                    print(op.result)
                    """, arguments: [directory.path + "/file"])
                let worker = cluster.allWorkers[0]
                worker.send(SIGTERM)
                try worker.wait(for: "ends when")
                worker.send(SIGTERM)
                let status = try worker.wait(seconds: 30)
                try cluster.addWorker("--slots", "1")
                _ = try run.wait(seconds: 30)
                return (run.lines, status)
            }
            #expect(status == 1 && log.contains("elsewhere"), "\(log)")
        }
    }
}
