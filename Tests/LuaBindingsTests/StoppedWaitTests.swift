import LuaBindings
import OpEngine
import TestSupport
import Testing

/// A body that waits is stopped, and never learns that its operation was cancelled on the way.
@Suite struct StoppedWaitTests {
    /// An operation of the host. Once `waiting` is cancelled, `cancel` returns when that has ended.
    private final class Holding: Operation, @unchecked Sendable {
        // Safety: `waiting` is locked; the gates are safe from every thread.
        let waiting = Locked<Operation?>(nil)
        let hasBegun = Gate()
        private let isCancelledOnce = Gate()

        override func main() {
            hasBegun.open()
            isCancelledOnce.wait()
        }

        override func cancel() {
            super.cancel()
            isCancelledOnce.open()
            if let waiting = waiting.withLock({ $0 }), waiting.isCancelled { waiting.waitUntilFinished() }
        }
    }

    private static let waits = [
        "channel:receive()", "for value in channel do print(value) end", "opscript.sleep(1000)", "channel:receive(1000)",
    ]

    @Test(arguments: waits, [false, true])
    func itDoesNotReturn(wait: String, inGroup: Bool) throws {
        try withRuntime { runtime throws in
            let holding = Holding(), hasBegun = Gate(), wentOn = Log<String>()
            try runtime.setGlobal("holding", to: .operation(holding))
            try runtime.register("begin") { _ in
                hasBegun.open()
                return []
            }
            try runtime.register("goOn") { _ in
                wentOn.append(wait)
                return []
            }
            let made = try runtime.run(
                """
                local channel = opscript.channel()
                local waiting = Operation.new(function() begin() \(wait) goOn() end)
                local group = opscript.GroupOperation.new()
                local place = \(inGroup ? "group" : "queue")
                place:addOperation(holding)
                place:addOperation(waiting)
                queue:addOperation(group)
                return waiting, group
                """)
            let waiting = try #require(made[0].operation), group = try #require(made[1].operation as? LuaOperation)
            holding.waiting.withLock { $0 = waiting }
            holding.hasBegun.wait()
            hasBegun.wait()
            // Of the operations that run, those that were added last are cancelled first.
            if inGroup { group.interrupt() } else { runtime.interruptAllOperations() }
            let kind = try runtime.run("local waiting = ... waiting:waitUntilFinished() return waiting.error.kind", arguments: made)
            #expect(kind == ["interrupted"] && wentOn.entries.isEmpty)
            holding.waiting.withLock { $0 = nil }
        }
    }
}
