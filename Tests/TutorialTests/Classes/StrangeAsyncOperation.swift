// A class as tutorials print it, as an example of what not to do: `main` begins something that goes on after the operation's end.
//
// Edits for Linux: `import Dispatch`. Edit for the tests: what goes on waits at a gate, and opens another at its end.

import Dispatch
import OpEngine
import TestSupport

class StrangeAsyncOperation: Operation {
    let str: String
    let count: UInt
    let mayPrint = Gate()
    let hasPrinted = Gate()

    init(str: String, count: UInt) {
        self.str = str
        self.count = count
    }

    override func main() {
        DispatchQueue.global().async { [str, count, mayPrint, hasPrinted] in
            guard count > 1 else {
                print("count must be greater than 1")
                return
            }

            mayPrint.wait()
            for _ in 0...count - 1 {
                print(str)
            }
            hasPrinted.open()
        }
    }
}
