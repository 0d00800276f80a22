// A program with an event loop of its own that lets it run the main queue: `mainloop epoll` waits for the inbox's file descriptor
// beside a timer, `mainloop dispatch` is woken by the inbox's hook inside of dispatchMain().
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

    /// Work in the background whose results are shown on the main thread; `end` is called there when all has been shown.
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
