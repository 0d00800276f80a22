import CTestSupport
import Glibc
import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Runtimes that come and go leave nothing behind.
@Suite struct ManyRuntimeTests {
    /// What a process has of the things that a runtime could leave behind.
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

    /// What a runtime does before it is closed, in turn.
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
        // A test ends when it has waited too long for one thread, so no thread makes all of them.
        for round in 0..<count / 100 {
            let all = (0..<threads).map { thread in
                TestThread { for number in 0..<100 / threads { makeAndClose(100 * round + number + thread) } }
            }
            for thread in all { thread.join() }
        }
    }

    /// Ten thousand with `OPSCRIPT_LONG_TESTS=1`.
    @Test(arguments: [1, 4]) func runtimesLeaveNoMemoryThreadsOrDescriptors(threads: Int) async {
        await #expect(processExitsWith: .success) { [threads] in
            let count = TestLength.isLong ? 10_000 : TestLength.size(1000)
            ManyRuntimeTests.makeAndClose(count: 100, threads: threads)
            let before = Holdings()
            ManyRuntimeTests.makeAndClose(count: count, threads: threads)
            // The kernel lists a thread for a moment after it was joined.
            var after = Holdings()
            for _ in 0..<10_000 where after.threads > before.threads {
                sched_yield()
                after = Holdings()
            }
            #expect(after.threads <= before.threads, "\(after.threads) threads")
            #expect(after.descriptors <= before.descriptors, "\(after.descriptors) descriptors")
            // Less than the smallest block for each of them, besides what the allocator's caches and the tests themselves hold.
            #expect(after.bytes < before.bytes + 16 * count + (128 << 10), "\(after.bytes - before.bytes) bytes")
        }
    }
}
