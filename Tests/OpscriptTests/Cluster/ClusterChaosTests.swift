import Glibc
import TestSupport
import Testing

extension ClusterTests {
    /// Random graphs while everything fails. `scripts/soak --cluster` runs the long form.
    @Suite("Chaos on a cluster", .serialized) struct Chaos {
        @Test("Every operation of a random graph ends once, as at home, while workers, the server and the network fail")
        func graphs() async throws {
            let run = ChaosRun()
            let report = try await TestCluster.run(workers: 4, isProxied: true) { try run.run(on: $0) }
            // A notice that the server is gone may follow the line.
            #expect(report.status == 0 && report.lines.contains("ok"), "seed \(run.seed): \(report)")
        }

        @Test("Memory and descriptors stay as they are", .enabled(if: ChaosRun.soakSeconds != nil))
        func soak() async throws {
            var run = ChaosRun()
            run.seconds = ChaosRun.soakSeconds ?? 0
            run.count = 2000
            run.mostFailures = .max
            let (report, growths) = try await TestCluster.run(workers: 0, isProxied: true) { [run] cluster in
                // Large values would fill the usual caches only after a long time.
                for _ in 1...4 { try cluster.addWorker("--slots", "2", "--cache", "16M") }
                return (try run.run(on: cluster), run.growths.withLock { $0 })
            }
            // A notice that the server is gone may follow the line.
            #expect(report.status == 0 && report.lines.contains("ok"), "seed \(run.seed): \(report)")
            for growth in growths { print(growth) }
            for growth in growths { #expect(!growth.isGrowing, "seed \(run.seed): \(growth)") }
        }

        @Test("Operations that are cancelled at random moments end once, and nothing of them is left")
        func cancelStorm() async throws {
            let seed = Int.random(in: 0..<1 << 31), count = TestLength.size(5000)
            let (outcome, list) = try await TestCluster.run { cluster in
                let outcome = try cluster.run(
                    """
                    local seed, count = math.tointeger(arg[1]), math.tointeger(arg[2])
                    math.randomseed(seed)
                    local queue = opscript.OperationQueue.new()
                    local ends, cancelled, ran = 0, 0, 0
                    local live = {}
                    for i = 1, count do
                      local op = opscript.Operation.new { name = "op " .. i, main = function(op)
                        if i % 3 == 0 then opscript.sleep(0.01) end
                        if i % 50 == 0 then while not op.isCancelled do opscript.sleep(10) end end
                        return i
                      end }
                      op.completionBlock = function(op)
                        ends = ends + 1
                        assert(op.result == i or op.isCancelled and op.result == nil)
                        if op.isCancelled then cancelled = cancelled + 1 end
                        if op.result then ran = ran + 1 end
                      end
                      queue:addOperation(op)
                      live[#live + 1] = op
                      while #live > 50 do
                        local op = table.remove(live, math.random(#live))
                        if math.random(5) == 1 then op:interrupt() elseif math.random(5) > 1 or op.name:match "[05]0$" then op:cancel() end
                        if math.random(20) == 1 then opscript.sleep(math.random() / 100) end
                      end
                    end
                    for _, op in ipairs(live) do op:cancel() end
                    queue:waitUntilAllOperationsAreFinished()
                    opscript.OperationQueue.main:waitUntilAllOperationsAreFinished()
                    while ends < count do opscript.sleep(0.01) end
                    io.stderr:write(cancelled, " cancelled, ", ran, " ran\\n")
                    print(ends, queue.operationCount, cancelled > count / 2)
                    """, arguments: ["\(seed)", "\(count)"])
                return (outcome, try Command.opscript("workers", "--cluster", cluster.url).run())
            }
            #expect(outcome.text == "\(count)\t0\ttrue\n" && outcome.status == 0, "seed \(seed): \(outcome)")
            #expect(list.lines.dropFirst().allSatisfy { $0.split(separator: " ").dropFirst(4).first == "0" }, "seed \(seed): \(list)")
        }
    }
}
