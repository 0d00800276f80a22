import TestSupport
import Testing

extension ClusterTests {
    /// Functions in the results of workers.
    @Suite("Code from a cluster", .serialized) struct Code {
        @Test("Functions of the script and of its modules return from a worker, and others are errors")
        func functions() async throws {
            let directory = try ScratchDirectory()
            _ = try directory.write(
                "local M = {} function M.square(n) return function() return n * n end end return M", to: "shapes.lua")
            let outcome = try await TestCluster.run(workers: 1) { cluster in
                try cluster.command(
                    """
                    local queue = opscript.OperationQueue.new()
                    local function run(f)
                      local op = queue:addOperation(f)
                      op:waitUntilFinished()
                      if op.error then error(op.error.message, 0) end
                      return op.result, op
                    end
                    local function own() local n = 1 return function() return function() n = n + 1 return n end end end
                    local made = run(own)
                    print(made()(), run(function() return made end)()())
                    print(run(function() return require "shapes".square(3) end)())
                    print(run(function() return opscript.freeze { f = function(n) return 2 * n end } end).f(4))
                    print(run(function() return string.rep, print end) == string.rep)
                    print(pcall(run, function() return load "return 1" end))
                    print(pcall(run, function() return { deep = { load "return function() end" () } } end))
                    print(pcall(run, function() return opscript.freeze { f = load "return 2" } end))
                    print(pcall(run, function() error { f = load "return 3" } end))
                    print(pcall(run, function(op) op.kept = load "return 4" end))
                    print(pcall(run, function() return setmetatable({}, { __transfer = function() return table.pack, 1 end }) end))
                    """
                ).directory(directory.path).run()
            }
            let lines = outcome.lines
            #expect(lines.prefix(4) == ["2\t3", "9", "8", "true"], "\(outcome)")
            #expect(lines.count == 10 && lines.dropFirst(4).allSatisfy { $0.hasPrefix("false\t") }, "\(outcome)")
            #expect(lines.dropFirst(4).prefix(5).allSatisfy { $0.contains("the worker has sent a function") }, "\(outcome)")
            #expect(lines.last?.contains("a metamethod would run in the host") ?? false, "\(outcome)")
        }
    }
}
