import Dispatch
import Glibc
import OpEngine

/// Runs Dispatch on the main thread; never returns.
func runDispatchMain() -> Never {
    let inbox = Engine.shared.mainInbox
    // dispatchMain() ends the first thread. From then on, "on the main thread" means "in the main dispatch queue".
    inbox.onWake = { DispatchQueue.main.async { _ = inbox.drain() } }
    MainLoop.startWork { exit(0) }
    dispatchMain()
}
