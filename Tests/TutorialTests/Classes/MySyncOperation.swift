// A class as tutorials print it: a synchronous operation that prints a text several times.
//
// Edits for Linux: none.

import OpEngine

class MySyncOperation: Operation {
    let str: String
    let count: UInt

    init(str: String, count: UInt) {
        self.str = str
        self.count = count
    }

    override func main() {
        guard count > 1 else {
            print("count must be greater than 1")
            return
        }

        for _ in 0...count - 1 {
            print(str)
        }
    }
}
