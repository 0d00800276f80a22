// A class as tutorials print it: an asynchronous operation that keeps its state in an enumeration and announces that it executes only
// after `main`. It breaks a rule, on purpose or not: `cancel` finishes it, perhaps before it has started.
//
// Edits for Linux: it is nested, because two tutorials use the name; `capitalized` is a shim (Shims.swift).

import OpEngine

enum LateExecuting {
    class AsyncOperation: Operation {
        enum State: String {
            case ready, executing, finished

            fileprivate var keyPath: String {
                return "is\(rawValue.capitalized)"
            }
        }

        var state = State.ready {
            willSet {
                willChangeValue(forKey: newValue.keyPath)
                willChangeValue(forKey: state.keyPath)
            }
            didSet {
                didChangeValue(forKey: oldValue.keyPath)
                didChangeValue(forKey: state.keyPath)
            }
        }

        override var isReady: Bool {
            return super.isReady && state == .ready
        }

        override var isExecuting: Bool {
            return state == .executing
        }

        override var isFinished: Bool {
            return state == .finished
        }

        override var isAsynchronous: Bool {
            return true
        }

        override func start() {
            if isCancelled {
                state = .finished
                return
            }
            main()
            state = .executing
        }

        override func cancel() {
            super.cancel()
            state = .finished
        }
    }
}
