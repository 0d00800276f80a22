import Dispatch
import Glibc
import OpEngine

/// Gives the main thread to Dispatch; never returns.
func runDispatchMain() -> Never {
    let inbox = Engine.shared.mainInbox
    // dispatchMain() ends the first thread, so "on the main thread" means "in the main dispatch queue" from here on.
    inbox.onWake = { DispatchQueue.main.async { _ = inbox.drain() } }
    MainLoop.startWork { exit(0) }
    dispatchMain()
}
