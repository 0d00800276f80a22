// A class as guides print it: a custom initialiser, `main`, and a loop that checks `isCancelled`.
//
// Edits for Linux: none. Edit for the tests: the loop opens a gate when it begins.

import Foundation
import OpEngine
import TestSupport

class NonConcurrentOperation: Operation {

    let myData: Data?

    init(data: Data?) {
        myData = data
        super.init()
    }

    override func main() {
        print(1)
    }
}

class CancellableOperation: NonConcurrentOperation {
    let hasBegun = Gate()

    override func main() {
        let isDone = false
        hasBegun.open()
        while !isCancelled && !isDone {
            print(1)
        }
    }
}
