import LuaBindings
import Measuring
import OpEngine

/// A host that gives its operations a Lua function.
@main struct Subject {
    static func main() throws {
        var configuration = Runtime.Configuration()
        configuration.keepsFreedMemory = true
        let runtime = try Runtime(configuration)
        let body = try runtime.function("local i = 1; return function() return i end")
        measure(["L1h": { flood($0, of: body, on: runtime.engine) }])
        runtime.close()
    }

    private static func flood(_ count: Int, of body: LuaFunction, on engine: Engine) -> Double {
        let queue = OperationQueue(engine: engine)
        return nanoseconds {
            for _ in 0..<count { queue.addOperation(LuaOperation(body)) }
            queue.waitUntilAllOperationsAreFinished()
        } / Double(count)
    }
}
