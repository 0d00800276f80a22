// A class that tutorials print as a bad example: `main` begins work that goes on after the end of the operation.
//
// Edits for Linux: `import Dispatch`. Edit for the tests: that work waits at a gate, and opens another gate at its end.

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
