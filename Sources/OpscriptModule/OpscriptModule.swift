import CLua
import COpscriptModule
import Glibc
import LuaBindings
import Reports

/// Carries out `require "opscript"`, behind `luaopen_opscript`: pushes the module, or a message, and returns the status.
@_cdecl("opscript_module_open")
func openModule(_ lua: OpaquePointer, _ setsStatus: Bool) -> Int32 {
    if unsafe clua_push_adopted_module(lua) { return LUA_OK }
    let adopted = unsafe Runtime.adopt(
        lua, ending: { Interpreter.end($0, setsStatus: setsStatus) }, exiting: Interpreter.exit)
    return adopted == nil ? LUA_ERRRUN : LUA_OK
}

/// The end of an interpreter that has loaded the module.
enum Interpreter {
    /// Runs the remaining operations and reports errors, as the command does after a script.
    static func end(_ runtime: Runtime, setsStatus: Bool) {
        if runtime.mainStateExits {
            runtime.interruptAllOperations()
            stop(runtime, deadline: .seconds(2))
            return report(runtime.takeUnreadFailures())
        }
        let catches = catchInterrupts(of: runtime)
        let ending = try? runtime.finish()
        let signal = catches ? runtime.lastInterrupt : nil
        if let status = runtime.requestedExitStatus { exit(runtime, status) }
        if let ending, !report(ending), setsStatus { opscript_module_fail_process() }
        if signal != nil { runtime.interruptAllOperations() }
        // The work of timers and observers gets a moment to end.
        stop(runtime, deadline: .seconds(signal == nil ? 2 : 5))
        if let signal {
            Glibc.signal(signal, SIG_DFL)
            raise(signal)
        }
    }

    /// Ends the process, because an operation has called `os.exit`.
    static func exit(_ runtime: Runtime, _ status: Int32) -> Never {
        runtime.interruptAllOperations()
        stop(runtime, deadline: .seconds(2))
        report(runtime.takeUnreadFailures())
        Glibc.exit(status)
    }

    /// An interpreter that ends does not handle Ctrl-C. If Ctrl-C would end the process, the runtime catches it, so that the programs end, too.
    private static func catchInterrupts(of runtime: Runtime) -> Bool {
        var action = sigaction()
        guard unsafe sigaction(SIGINT, nil, &action) == 0, unsafe action.__sigaction_handler.sa_handler == nil else { return false }
        return (try? runtime.catchInterrupts()) != nil
    }

    private static func stop(_ runtime: Runtime, deadline: Duration) {
        for name in runtime.stop(deadline: deadline) { write("\(name) did not stop") }
    }

    /// Returns whether nothing went wrong.
    private static func report(_ ending: Runtime.Ending) -> Bool {
        if ending.wasInterrupted { return true }
        report(ending.unreadFailures)
        for sentence in ending.stuckOperations + ending.failedPrograms { write(sentence) }
        let failed = ending.unreadFailures.count
        if failed > 0 { write("\(failed) operation\(failed == 1 ? "" : "s") failed") }
        return failed == 0 && ending.stuckOperations.isEmpty && ending.failedPrograms.isEmpty && ending.callbackErrorCount == 0
    }

    private static func report(_ failures: [OperationFailure]) {
        for group in FailureGroup.all(of: failures) { StandardError.write(group.report(prefix: "opscript: ")) }
    }

    private static func write(_ text: String) { StandardError.write("opscript: \(text)\n") }
}
