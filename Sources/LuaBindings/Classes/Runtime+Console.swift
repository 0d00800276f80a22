import CLua
import OpEngine

/// The functions that an interactive session needs.
extension Runtime {
    /// Runs a script that returns a table of functions, and keeps the table.
    ///
    /// From then on `runLine` passes the values of an expression to the table's function `format`, and prints the values that it returns. The
    /// host calls the other functions with `callConsole`.
    ///
    /// - Throws: the error that the script raises, or an error if the runtime is closed.
    public func openConsole(_ source: String, name: String) throws(LuaError) {
        try inside { state throws(Failure) in try state.openConsole(source, name: name) }
    }

    /// Calls a function of the table that the script of `openConsole` has returned.
    public func callConsole(_ function: String, _ arguments: [LuaValue]) throws(LuaError) -> [LuaValue] {
        try insideRun { state throws(Failure) in try state.callConsole(function, arguments) }
    }

    /// Makes the handler of SIGINT and SIGTERM call `function` before a signal ends the process, for example because it is the second signal.
    /// The function must be async-signal-safe.
    public static func beforeDeath(_ function: @escaping @convention(c) () -> Void) { clua_before_death(function) }

    /// The names of the methods and properties of a class of operations, or of `OperationQueue`; empty for other names.
    public static func memberNames(ofClass name: String) -> [String] {
        switch name {
        case "Operation", "BlockOperation", "InvocationOperation": OperationClass.Function.names + OperationClass.Property.names
        case "GroupOperation": OperationClass.Function.names + OperationClass.Property.names + GroupOperationClass.Property.names
        case "OperationQueue": OperationQueueClass.Function.names + OperationQueueClass.Property.names + ScriptedFunctions.Method.names
        default: []
        }
    }

    /// A view of this runtime's operations for people, usable from any thread.
    public var monitor: RunMonitor { RunMonitor(core: core) }
}
