import CIO
import Glibc
import OpEngine
import OpPlatform

/// The terminal of the process. One program at a time may have it.
enum ProgramTerminal {
    private static let shared = Guarded(Shared())

    private struct Shared {
        var isTaken = false
        /// The inboxes of states that wait for the terminal.
        var waiting: [Inbox] = []
        /// Make room for a program on the terminal, and use the terminal again afterwards.
        var lend: (@Sendable () -> Void)?
        var takeBack: (@Sendable () -> Void)?
    }

    static func setHandlers(_ lend: @escaping @Sendable () -> Void, _ takeBack: @escaping @Sendable () -> Void) {
        shared.withLock { ($0.lend, $0.takeBack) = (lend, takeBack) }
    }

    /// Waits until no program has the terminal, and reserves it for the program that `state` starts next.
    ///
    /// - Throws: the reason why the program cannot have the terminal.
    static func take(for name: String, in state: LuaState) throws(CallError) {
        var isOurs = false
        shared.withLock { $0.waiting.append(state.inbox) }
        defer {
            shared.withLock { shared in
                if let index = shared.waiting.lastIndex(where: { $0 === state.inbox }) { shared.waiting.remove(at: index) }
            }
        }
        do throws(CallError) {
            _ = try state.wait(deadline: nil) {
                if !isOurs { isOurs = shared.withLock { exchange(&$0.isTaken, with: true) == false } }
                return isOurs
            }
        } catch {
            if isOurs { free() }
            throw error
        }
        guard isOurs else { throw .message("cannot start '\(name)': the wait for the terminal has ended") }
        shared.withLock(\.lend)?()
        let error = cio_terminal_lend()
        if error == 0 { return }
        release()
        let reason = error == ENOTTY ? "this process has no terminal" : "this process is in the background: bring it to the foreground (fg)"
        throw .message("cannot start '\(name)' with terminal = true: \(reason)")
    }

    /// Ends the use of the terminal by a program, or by one that could not be started.
    static func release() {
        shared.withLock(\.takeBack)?()
        free()
    }

    private static func free() {
        let waiting = shared.withLock { shared in
            shared.isTaken = false
            return shared.waiting
        }
        for inbox in waiting { inbox.wake() }
    }
}
