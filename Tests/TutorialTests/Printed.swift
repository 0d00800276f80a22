import OpEngine
import TestSupport

/// What the classes printed, in place of standard output: the tests look at it. Texts are different in each test.
enum Printed {
    private static let texts = Log<String>()
    private static let lines = Locked<[Line]>([])

    /// A word that an operation printed.
    struct Line {
        let operation: Operation
        let word: String
    }

    static func add(_ text: String) { texts.append(text) }
    static func add(_ word: String, of operation: Operation) {
        lines.withLock { $0.append(Line(operation: operation, word: word)) }
    }

    static func count(of text: String) -> Int { texts.entries.filter { $0 == text }.count }

    /// The lines of all operations since the last call, in order.
    static func takeLines() -> [Line] {
        lines.withLock { lines in
            defer { lines = [] }
            return lines
        }
    }
}

/// Stands before the standard library's.
func print(_ item: Any) { Printed.add("\(item)") }
func print(_ operation: Operation, _ word: String, _ indexPath: Any? = nil) { Printed.add(word, of: operation) }
