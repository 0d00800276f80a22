// A class as guides print it: a concurrent operation that keeps two flags and runs `main` on a thread of its own, and the method that
// starts operations by hand.
//
// Edits for Linux: the stored properties have initial values; `Thread.detachNewThreadSelector(#selector(main), …)` is
// `Thread.detachNewThread { … }`.
// As printed, `performOperation` returns false when it has run a synchronous operation.

import Foundation
import OpEngine

class MyOperation: Operation {

    var executing: Bool = false
    var finished: Bool = false

    override init() {
        super.init()
        executing = false
        finished = false
    }

    override var isAsynchronous: Bool { return true }

    override var isExecuting: Bool { return executing }

    override var isFinished: Bool { return finished }

    override func start() {
        if isCancelled {
            willChangeValue(forKey: "isFinished")
            finished = true
            didChangeValue(forKey: "isFinished")
            return
        }
        willChangeValue(forKey: "isExecuting")
        Thread.detachNewThread { self.main() }
        executing = true
        didChangeValue(forKey: "isExecuting")
    }

    override func main() {
        complete()
    }

    func complete() {
        willChangeValue(forKey: "isFinished")
        willChangeValue(forKey: "isExecuting")
        executing = false
        finished = true
        didChangeValue(forKey: "isExecuting")
        didChangeValue(forKey: "isFinished")
    }

    func performOperation(_ operation: Operation) -> Bool {
        var ranIt = false
        if operation.isReady && !operation.isCancelled {
            if !operation.isAsynchronous {
                operation.start()
            } else {
                Thread.detachNewThread { operation.start() }
                ranIt = true
            }
        } else if operation.isCancelled {
            willChangeValue(forKey: "isFinished")
            willChangeValue(forKey: "isExecuting")
            executing = false
            finished = true
            didChangeValue(forKey: "isExecuting")
            didChangeValue(forKey: "isFinished")
            ranIt = true
        }
        return ranIt
    }
}
