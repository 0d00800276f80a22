import CIO
import CLua
import Glibc
package import OpEngine
import Synchronization

/// Ending a run early.
extension Runtime {
    /// The reason why a run ends early.
    public enum ExitCause: Sendable {
        /// An operation has called `os.exit`.
        case script
        /// The time that the host has passed to `requestExit` is over.
        case deadline
        /// An operation has failed, and the host had called `requestExitAtFirstFailure`.
        case failure(OperationFailure)
    }

    /// The first reason why the run ends early; nil if there is none.
    public var exitCause: ExitCause? { core.exitCause }

    /// Ends the run after `seconds`, as if an operation had called `os.exit(status)` then: stops the main state's script, cancels all
    /// operations, and makes `requestedExitStatus` the status with which the host should end. If the process has not ended 5 seconds
    /// later, it is ended. A wait that nothing else can end is still an error.
    public func requestExit(_ status: Int32, after seconds: Double) {
        core.io.after(seconds, isLimit: true) { [core] in
            if !core.isClosing { core.requestExit(status, because: .deadline) }
        }
    }

    /// Ends the run in the same way when the first operation fails, whether or not a script reads its error.
    public func requestExitAtFirstFailure(_ status: Int32) { core.exitStatusAtFailure.store(status, ordering: .relaxed) }

    /// Calls `body`, on the thread inside, when the script calls `os.exit` in the main state, which ends the process at once. Its argument is the
    /// operation that the call ends, if the script has called `os.exit` in one.
    package func whenScriptExits(_ body: @escaping (Operation?) -> Void) { core.scriptExits = body }

    /// Makes the end of the process check that stdout was written. If not, the process ends with a message and status 1. Call once.
    package static func checkOutputAtExit() { clua_check_output_at_exit() }

    /// Makes Ctrl-Z stop the programs of scripts as well, and `fg` continue them, unless SIGTSTP is ignored or has a handler. The time between does not
    /// count for time limits. Gives Ctrl-\ its default effect. Call it before scripts run.
    package static func handleKeys() { cio_handle_keys() }

    /// If Ctrl-C has ended the run, makes programs that are ended from now on get SIGINT first.
    package func passInterruptToPrograms() { if lastInterrupt == SIGINT { core.io.interrupt() } }

    /// Calls `lend` before a program gets the terminal, and `takeBack` afterwards, on any thread. Call it once, before scripts run.
    package static func whenTerminalIsLent(_ lend: @escaping @Sendable () -> Void, _ takeBack: @escaping @Sendable () -> Void) {
        ProgramTerminal.setHandlers(lend, takeBack)
    }

    /// Compiles a file, or standard input if `file` is nil, and runs nothing.
    ///
    /// - Throws: the syntax error, or an error if the file cannot be read.
    public func check(file: String?) throws(LuaError) {
        try insideRun { state throws(Failure) in try state.check(file: file) }
    }
}
