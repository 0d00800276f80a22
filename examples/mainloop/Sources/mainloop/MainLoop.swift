// A program whose own event loop runs the main queue. `mainloop epoll` waits for the inbox's file descriptor and a timer;
// `mainloop dispatch` drains the inbox in dispatchMain(), which the inbox's hook wakes.
import OpEngine

@main
struct MainLoop {
    static func main() {
        switch CommandLine.arguments.dropFirst().first {
        case "epoll": EpollLoop().run()
        case "dispatch": runDispatchMain()
        default: print("usage: mainloop epoll|dispatch")
        }
    }

    /// Starts background work whose results are shown on the main thread. Calls `end` there when all results have been shown.
    static func startWork(end: @escaping @Sendable () -> Void) {
        let queue = OperationQueue()
        let last = BlockOperation {
            print("that was all")
            end()
        }
        for number in 1...3 {
            let square = BlockOperation { print("\(number) squared is \(number * number)") }
            let work = BlockOperation {}
            square.addDependency(work)
            if let before = last.dependencies.last { square.addDependency(before) }
            last.addDependency(square)
            queue.addOperation(work)
            OperationQueue.main.addOperation(square)
        }
        OperationQueue.main.addOperation(last)
    }
}
