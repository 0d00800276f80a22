import CTestSupport
import Glibc
import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Runtimes that come and go leave nothing behind.
@Suite struct ManyRuntimeTests {
    /// The numbers of things in the process that a runtime could leave behind.
    private struct Holdings {
        let bytes = allocated_bytes()
        let threads = entries(of: "/proc/self/task")
        let descriptors = entries(of: "/proc/self/fd")

        private static func entries(of directory: String) -> Int {
            guard let list = unsafe opendir(directory) else { return 0 }
            defer { unsafe closedir(list) }
            var count = 0
            while unsafe readdir(list) != nil { count += 1 }
            return count
        }
    }

    /// The uses of a runtime before it is closed, in turn.
    private static let scripts = [
        // Everything has ended.
        """
        local queue, sum = opscript.OperationQueue.new(), 0
        for i = 1, 4 do
            local op = opscript.Operation.new(function(op, n) return double(n) end, i)
            op.completionBlock = function(op) sum = sum + op.result end
            queue:addOperation(op)
        end
        queue:waitUntilAllOperationsAreFinished()
        assert(sum == 20)
        """,
        // Bodies, timers, programs, observations and callbacks are left.
        """
        local queue = opscript.OperationQueue.new()
        opscript.after(1000, print)
        opscript.every(0.001, function() end)
        opscript.process { "/bin/sleep", "1000", onExit = print }
        local op = queue:addOperation(function(op) while not op.isCancelled do end end)
        op:observe("isFinished", print)
        queue:addOperation(function() error 'unread' end)
        """,
        // Operations that never run keep each other alive.
        """
        local queue = opscript.OperationQueue.new { isSuspended = true }
        local a, b = opscript.Operation.new(), opscript.Operation.new()
        a.other, b.other = b, a
        queue:addOperation(function() return a, b, queue end)
        setmetatable({}, { __gc = function() double(1) end })
        local class = opscript.Operation:subclass "Kept"
        function class:main() return class end
        queue:addOperation(class.new())
        """,
        // The script itself fails.
        "opscript.OperationQueue.main:addOperation(print); error { 'a', 'value' }",
    ]

    private static func makeAndClose(_ number: Int) {
        do {
            var configuration = Runtime.Configuration()
            configuration.workerCount = 1 + number % 2
            let runtime = try Runtime(configuration)
            try runtime.register("double") { (number: Int) in 2 * number }
            let script = scripts[number % scripts.count]
            do { try runtime.run(script) } catch { #expect(error.message.contains("table") || number % scripts.count == 3, "\(error)") }
            _ = runtime.wakeDescriptor
            #expect(runtime.close().isEmpty)
        } catch { Issue.record(error) }
    }

    private static func makeAndClose(count: Int, threads: Int) {
        onThreads(threads) { thread in for number in 0..<count / threads { makeAndClose(number + thread) } }
    }

    /// Ten thousand with `OPSCRIPT_LONG_TESTS=1`.
    @Test(arguments: [1, 4]) func runtimesLeaveNoMemoryThreadsOrDescriptors(threads: Int) async {
        await #expect(processExitsWith: .success) { [threads] in
            alarm(600)  // a runtime that does not end fails the test
            let rounds = 5, count = (TestLength.isLong ? 10_000 : TestLength.size(2500)) / rounds
            ManyRuntimeTests.makeAndClose(count: 200, threads: threads)
            var holdings = [Holdings()]
            for _ in 0..<rounds {
                ManyRuntimeTests.makeAndClose(count: count, threads: threads)
                holdings.append(Holdings())
            }
            // A leak grows in each round. The median passes over what changes once: the kernel lists a thread for a moment after it was
            // joined, the buffer of stdout is made when a callback first prints, and threads of the test run keep some blocks.
            func growth(of key: KeyPath<Holdings, Int>) -> Int {
                zip(holdings, holdings.dropFirst()).map { $1[keyPath: key] - $0[keyPath: key] }.sorted()[rounds / 2]
            }
            // The limits are below what one of the four scripts would leave.
            #expect(growth(of: \.threads) < count / 10, "\(holdings.map(\.threads))")
            #expect(growth(of: \.descriptors) < count / 10, "\(holdings.map(\.descriptors))")
            let smallestBlock = 32
            #expect(growth(of: \.bytes) < smallestBlock * count / 8 + (1 << 10), "\(holdings.map(\.bytes))")
        }
    }
}
