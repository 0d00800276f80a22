import OpEngine
import TestSupport

/// Collects what the classes print, for the tests, in place of standard output. Each test prints different texts.
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

/// Replaces the standard library's function.
func print(_ item: Any) { Printed.add("\(item)") }
func print(_ operation: Operation, _ word: String, _ indexPath: Any? = nil) { Printed.add(word, of: operation) }
