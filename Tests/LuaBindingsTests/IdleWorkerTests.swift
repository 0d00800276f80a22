import Glibc
import OpEngine
import Testing

@testable import LuaBindings

/// A worker's thread and its Lua state stay while a callback is pending in the state, and end afterwards.
@Suite struct IdleWorkerTests {
    /// Things that a body on a worker sets up. Each line calls `tell` once `event` has started, or shortly after.
    @Test(arguments: [
        "opscript.after(0.02, tell)",
        "opscript.every(0.02, function(timer) timer:cancel() tell() end)",
        "opscript.process { 'sleep', '0.02', onExit = tell }",
        "event.completionBlock = tell",
        "event:observe('isFinished', tell)",
        "event:observe('stored', tell)",
        "queue:observe('operationCount', tell)",
        "local own = Operation.new { completionBlock = tell, dependencies = { event } } queue:addOperation(own)",
        "local own = Operation.new { asynchronous = true, completionBlock = tell } own:start() event.own = own",
    ])
    func whatIsToBeCalledBackIs(what: String) throws {
        try withRuntime(workers: 1, idleTime: .zero) { runtime throws in
            // The value that the callback sees shows that it runs in the state that set it.
            try runtime.run(
                """
                event, told = Operation.new(function(op) op.stored = 1 if op.own then op.own:finish() end end), Operation.new()
                queue:addOperation(function()
                    local live = 'not yet'
                    local function tell() told.what = live end
                    \(what)
                    live = 'live'
                end):waitUntilFinished()
                opscript.after(0.02, function() OperationQueue.main:addOperation(event) queue:addOperation(function() end) end)
                for _ = 1, 3000 do
                    if told.what then break end
                    opscript.sleep(0.01)
                end
                """)
            #expect(try runtime.run("return told.what") == ["live"])
            #expect(try runtime.finish().stuckOperations.isEmpty)
            try waitUntil { runtime.engine.threadCount == 0 }
        }
    }

    @Test func theNextBodyGetsAFreshState() throws {
        try withRuntime(workers: 1, idleTime: .zero) { runtime throws in
            try runtime.run("queue:addOperation(function() string.left = 'behind' end):waitUntilFinished()")
            try waitUntil { runtime.engine.threadCount == 0 }
            let operation = try runtime.operation("return queue:addOperation(function() return string.left end)")
            #expect(try runtime.results(of: operation) == [.nil])
        }
    }

    /// The next state is nearly always at the same address as the one before.
    @Test func aBlockIsNotTakenForOneOfTheStateThatHasGone() throws {
        try withRuntime(workers: 1, idleTime: .zero) { runtime throws in
            for _ in 1...5 {
                try runtime.run(
                    """
                    made = queue:addOperation(function() return Operation.new(function() return 1 end) end)
                    made:waitUntilFinished()
                    made, told = made.result, Operation.new()
                    """)
                try waitUntil { runtime.engine.threadCount == 0 }
                try runtime.run(
                    """
                    queue:addOperation(function()
                        made.completionBlock = function() told.what = 'told' end
                        queue:addOperation(made)
                    end):waitUntilFinished()
                    assert(made:waitUntilFinished(30))
                    for _ = 1, 300 do
                        if told.what then break end
                        opscript.sleep(0.01)
                    end
                    """)
                #expect(try runtime.run("return told.what") == ["told"])
            }
            #expect(try runtime.finish().stuckOperations.isEmpty)
            try waitUntil { runtime.engine.threadCount == 0 }
        }
    }

    @Test func aClosedRuntimeLeavesNoThread() async {
        await #expect(processExitsWith: .success) {
            let before = try threads()
            for round in 1...5 {
                try withRuntime(workers: 3, idleTime: round.isMultiple(of: 2) ? .zero : .seconds(10)) { runtime throws in
                    try runtime.run(
                        """
                        local list = {}
                        for i = 1, 20 do
                            list[i] = Operation.new(function()
                                opscript.after(100, error)
                                opscript.process { 'sleep', '100' }
                                setmetatable({}, { __gc = function() for i = 1, 1000 do local _ = {} end end })
                            end)
                            list[i].qualityOfService = i % 2 == 0 and 'background' or 'userInitiated'
                        end
                        queue:addOperations(list, true)
                        queue:addOperation(function() opscript.sleep(100) end)
                        queue:addOperation(function(op) while not op.isCancelled do end end)
                        """)
                    #expect(try threads().count > before.count)
                }
            }
            // The kernel lists a thread for a moment after it was joined. One more thread starts the threads of the process.
            try waitUntil { try threads().subtracting(before).count <= 1 }
        }
    }
}

/// The threads of this process, by the kernel's numbers.
private func threads() throws -> Set<String> {
    guard let directory = unsafe opendir("/proc/self/task") else { throw LuaError(message: "no /proc/self/task") }
    defer { unsafe closedir(directory) }
    var names: Set<String> = []
    while let entry = unsafe readdir(directory) {
        let name = unsafe withUnsafeBytes(of: entry.pointee.d_name) { unsafe String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        if !name.hasPrefix(".") { names.insert(name) }
    }
    return names
}

/// Gives other threads their turn until `condition` holds; an error when it does not within half a minute.
private func waitUntil(_ condition: () throws -> Bool) throws {
    let deadline = ContinuousClock.now + .seconds(30)
    while try !condition() {
        if ContinuousClock.now > deadline { throw LuaError(message: "this has not come about within 30 seconds") }
        sched_yield()
    }
}
