import OpEngine
import OpPlatform

/// Puts a mark before each line of a text that arrives in parts. Other output may interrupt a very long line.
final class LineMarks: Sendable {
    private let isAtLineStart = Guarded(true)

    func mark(_ bytes: [UInt8], with mark: String) -> [UInt8] {
        isAtLineStart.withLock { isAtLineStart in
            var marked: [UInt8] = []
            for byte in bytes {
                if isAtLineStart { marked += mark.utf8 }
                marked.append(byte)
                isAtLineStart = byte == UInt8(ascii: "\n")
            }
            return marked
        }
    }
}
