import ClusterSupport
import Glibc
import TestSupport
import Testing

/// The beginning of a script whose bodies note when they begin, in a file that is the first argument.
private let notingPreamble = """
    local Operation, Queue = opscript.Operation, opscript.OperationQueue
    local path = arg[1]
    local function note(text)
      local file = io.open(path, "a")
      file:write(text .. "\\n")
      file:close()
    end
    local function noted()
      local count = 0
      for _ in io.lines(path) do count = count + 1 end
      return count
    end

    """

extension ClusterTests {
    @Suite("Failures of workers", .serialized) struct WorkerFailures {
        @Test("The operations of a worker that dies run elsewhere")
        func runsElsewhere() async throws {
            let directory = try ScratchDirectory()
            let (log, seconds) = try await TestCluster.run(workers: 1, slots: 1) { cluster in
                let run = try cluster.start(
                    notingPreamble + """
                        local op = Queue.new():addOperation(function()
                          note "begun"
                          if noted() == 1 then print "ready" while true do end end
                          return "elsewhere"
                        end)
                        op:waitUntilFinished()
                        print(op.result, op.error, noted())
                        """, arguments: [directory.path + "/file"])
                try cluster.addWorker("--slots", "1")
                let start = ContinuousClock.now
                cluster.allWorkers[0].kill()
                _ = try run.wait(seconds: 30)
                return (run.lines, start.duration(to: .now))
            }
            #expect(log.contains("elsewhere\tnil\t2"), "\(log)")
            #expect(seconds > .seconds(1) && seconds < .seconds(8), "\(seconds)")
        }

        @Test("An operation fails as lost when as many workers died with it as it may be delivered to, and at once if that is one")
        func lost() async throws {
            let directory = try ScratchDirectory()
            let log = try await TestCluster.run(workers: 3, slots: 1) { cluster in
                let run = try cluster.start(
                    notingPreamble + """
                        local function run(name, options)
                          options.cluster = true
                          local before = noted()
                          local op = Operation.new { name = name, main = function()
                            note(name)
                            opscript.sh("kill -KILL " .. (io.open "/proc/self/stat":read "n")):wait()
                          end }
                          Queue.new(options):addOperation(op):waitUntilFinished()
                          print(name, op.error.kind, noted() - before, op.isCancelled, op.error)
                        end
                        note "first"
                        print "ready"
                        run("once", { delivery = "atMostOnce" })
                        run("twice", { maxDeliveries = 2 })
                        """, arguments: [directory.path + "/file"])
                _ = try run.wait(seconds: 60)
                return run.lines
            }
            #expect(log.contains { $0.hasPrefix("once\tlost\t1\tfalse\t'once' was lost with its worker: w") }, "\(log)")
            #expect(log.contains { $0.hasPrefix("twice\tlost\t2\tfalse\t'twice' was lost with its workers: w") }, "\(log)")
        }
    }

    @Suite("Failures of the server and the network", .serialized) struct ServerFailures {
        @Test("Operations survive a server that is killed, and one that does not answer for a while")
        func server() async throws {
            let outcome = try await TestCluster.run { cluster in
                let run = try cluster.start(
                    """
                    local queue = opscript.OperationQueue.new()
                    local ops = {}
                    for i = 1, 200 do
                      ops[i] = queue:addOperation(function() if i == 20 then print "ready" end opscript.sleep(0.02) return i end)
                    end
                    local sum = 0
                    for _, op in ipairs(ops) do op:waitUntilFinished() sum = sum + op.result end
                    print("sum " .. sum)
                    """)
                cluster.server.end()
                try cluster.server.start()
                cluster.server.send(SIGSTOP)
                // The bodies go on meanwhile.
                _ = try Command.shell("exec sleep 1").run()
                cluster.server.send(SIGCONT)
                return (try run.wait(seconds: 60), run.lines)
            }
            #expect(outcome.0 == 0 && outcome.1.contains("sum 20100"), "\(outcome)")
        }

        @Test("Operations survive a network that closes connections, and one that passes nothing on", arguments: [true, false])
        func network(isCut: Bool) async throws {
            let outcome = try await TestCluster.run(isProxied: true) { cluster in
                let run = try cluster.start(
                    """
                    local queue = opscript.OperationQueue.new()
                    local ops = {}
                    for i = 1, 200 do
                      ops[i] = queue:addOperation(function() if i == 20 then print "ready" end opscript.sleep(0.02) return i end)
                    end
                    local sum = 0
                    for _, op in ipairs(ops) do op:waitUntilFinished() sum = sum + op.result end
                    print("sum " .. sum)
                    """)
                if isCut { cluster.proxy?.cut() } else { cluster.proxy?.freeze() }
                // The bodies go on meanwhile.
                _ = try Command.shell("exec sleep 1").run()
                cluster.proxy?.heal()
                return (try run.wait(seconds: 60), run.lines)
            }
            #expect(outcome.0 == 0 && outcome.1.contains("sum 20100"), "\(outcome)")
        }

        @Test("A worker that is cut off for longer than it takes to count as lost comes back, and its operations have one outcome")
        func isolated() async throws {
            let directory = try ScratchDirectory()
            let (status, log) = try await TestCluster.run(workers: 0) { cluster in
                let proxy = try TCPProxy(to: cluster.server.port)
                var command = Command.opscript()
                command.arguments = ["worker", "--cluster", proxy.url, "--slots", "1", "--name", "isolated"]
                let isolated = try Daemon(command, readyWhen: "at once")
                let run = try cluster.start(
                    notingPreamble + """
                        local queue = Queue.new()
                        local op = queue:addOperation(function()
                          note "begun"
                          if noted() > 1 then return "elsewhere" end
                          print "ready"
                          opscript.sleep(4)
                          return "isolated"
                        end)
                        op.completionBlock = function() print("ended", op.result) end
                        op:waitUntilFinished()
                        local again = queue:addOperation(function() note "again" return "again" end)
                        again:waitUntilFinished()
                        print(again.result, noted())
                        """, arguments: [directory.path + "/file"])
                try cluster.addWorker("--slots", "1")
                proxy.cut()
                try run.wait(for: "ended")
                proxy.heal()
                try isolated.wait(for: "is there again")
                return (try run.wait(seconds: 60), run.lines)
            }
            #expect(status == 0 && log.contains("ended\telsewhere") && log.filter { $0.hasPrefix("ended") }.count == 1, "\(log)")
            #expect(log.contains("again\t3"), "\(log)")
        }
    }
}
