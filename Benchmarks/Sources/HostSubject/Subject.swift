import LuaBindings
import Measuring
import OpEngine

/// A host that runs a Lua function as an operation, or runs a script.
@main struct Subject {
    static func main() throws {
        let runtime = try Runtime()
        let body = try runtime.function("local i = 1; return function() return i end")
        try registerFunctions(in: runtime)
        measure([
            "L1h": { flood($0, of: body, on: runtime.engine) },
            "M-left": { leftBytes($0, in: runtime) },
            "H1": { callFromLua($0, "addDirectly", in: runtime) },
            "H2": { callFromLua($0, "add", in: runtime) },
            "H2u": { callFromLua($0, "addUntyped", in: runtime) },
            "H3": makeAndClose,
            "H4": { decodeRows($0, in: runtime) },
        ])
        runtime.close()
    }

    /// The memory that an operation of a script leaves in the process once all have finished and been collected.
    private static func leftBytes(_ count: Int, in runtime: Runtime) -> Double {
        let script = """
            local kept, queue, finished = {}, opscript.OperationQueue.new(), 0
            local function completion() finished = finished + 1 end
            for i = 1, ... do
              kept[i] = opscript.Operation.new(function() return i end)
              kept[i].completionBlock = completion
              queue:addOperation(kept[i])
            end
            queue:waitUntilAllOperationsAreFinished()
            while finished < #kept do opscript.sleep(0) end
            kept = nil
            for _ = 1, 3 do collectgarbage() end
            """
        let before = allocatedBytes()
        do { try runtime.run(script, arguments: [.integer(count)]) } catch { fatalError("\(error)") }
        return (allocatedBytes() - before) / Double(count)
    }

    private static func flood(_ count: Int, of body: LuaFunction, on engine: Engine) -> Double {
        let queue = OperationQueue(engine: engine)
        return nanoseconds {
            for _ in 0..<count { queue.addOperation(LuaOperation(body)) }
            queue.waitUntilAllOperationsAreFinished()
        } / Double(count)
    }
}
