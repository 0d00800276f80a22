// A class as tutorials print it: an asynchronous operation that prints a text several times. Its `cancel` does not call `super`.
//
// Edits for Linux: it is nested, because two tutorials use the name; `capitalized` is a shim (Shims.swift); `import Dispatch`.
// Edit for the tests: a gate, `step`, replaces the second of sleep before each print.

import Dispatch
import OpEngine
import TestSupport

enum FinishedByCancel {
    class AsyncOperation: Operation {
        // 1
        enum State: String {
            case ready, executing, finished

            // 2
            var keyPath: String {
                "is\(rawValue.capitalized)"
            }
        }

        // 3
        var state = State.ready {
            // 4
            willSet {
                willChangeValue(forKey: state.keyPath)
                willChangeValue(forKey: newValue.keyPath)
            }
            didSet {
                didChangeValue(forKey: oldValue.keyPath)
                didChangeValue(forKey: state.keyPath)
            }
        }

        // 5
        override var isExecuting: Bool {
            state == .executing
        }
        override var isFinished: Bool {
            state == .finished
        }
        override var isAsynchronous: Bool {
            true
        }
        // 6
        override func start() {
            if isCancelled {
                state = .finished
                return
            }
            state = .executing
            main()
        }

        override func cancel() {
            state = .finished
        }

        let str: String
        let count: UInt
        let step = Gate()

        init(str: String, count: UInt) {
            self.str = str
            self.count = count
        }

        override func main() {
            DispatchQueue.global().async { [str, count] in
                guard count > 1 else {
                    print("count must be greater than 1")
                    return
                }

                for _ in 0...count - 1 {
                    self.step.wait()
                    print(str)
                }

                // 7
                self.state = .finished
            }
        }
    }
}
