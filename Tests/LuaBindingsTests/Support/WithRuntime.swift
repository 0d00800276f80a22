import LuaBindings
import OpEngine
import Testing

/// Calls `body` with a new runtime, whose scripts have `Operation`, `OperationQueue` and a queue `queue`, and closes it afterwards.
@discardableResult
func withRuntime<Result>(
    workers: Int = 2, idleTime: Duration = .seconds(10), store: Runtime.Store? = nil, _ body: (Runtime) throws -> Result
) throws -> Result {
    var configuration = Runtime.Configuration()
    configuration.workerCount = workers
    configuration.idleTime = idleTime
    configuration.ignoresEnvironment = true
    configuration.store = store
    let runtime = try Runtime(configuration)
    defer { #expect(runtime.close(deadline: .seconds(30)).isEmpty) }
    try runtime.run("Operation, OperationQueue = opscript.Operation, opscript.OperationQueue; queue = OperationQueue.new 'test'")
    return try body(runtime)
}

/// Runs a script and everything that it leaves to run. Returns the results of the script.
@discardableResult
func script(workers: Int = 2, _ source: String) throws -> [LuaValue] {
    try withRuntime(workers: workers) { runtime in
        let values = try runtime.run(source)
        let ending = try runtime.finish()
        #expect(ending.stuckOperations.isEmpty)
        return values
    }
}

extension Runtime {
    /// Runs a script and returns the operation that it returns.
    func operation(_ source: String, arguments: [LuaValue] = []) throws -> Operation {
        try #require(try run(source, arguments: arguments).first?.operation)
    }
}
