import CText
package import LuaBindings

/// An error as a text for people: the message, the source line with a caret if the position is known, and the informative frames of the
/// traceback.
package struct ErrorReport {
    package let message: String
    private let stack: String
    /// The text that was typed at the prompt, if it has caused the error.
    private let source: String?
    private let files: SourceFiles
    /// The failure of the operation whose error the script has raised again with `get`.
    private var origin: OperationFailure?

    package init(_ error: LuaError, source: String? = nil) {
        self.init(message: error.message, traceback: error.traceback, source: source)
        origin = error.underlyingError as? OperationFailure
    }

    /// - Parameter traceback: the lines of Lua's traceback, or an empty text.
    package init(message: String, traceback: String, source: String? = nil, files: SourceFiles = SourceFiles()) {
        self.message = message
        stack = traceback
        self.source = source
        self.files = files
    }

    /// - Parameter report: the message and, on the lines after it, the traceback if there is one.
    package init(report: String, files: SourceFiles) {
        // A message may quote a traceback; the error's own is the last one.
        let lines = report.split(separator: "\n", omittingEmptySubsequences: false)
        let start = lines.lastIndex(of: "stack traceback:") ?? lines.endIndex
        self.init(
            message: lines[..<start].joined(separator: "\n"), traceback: lines[start...].joined(separator: "\n"), files: files)
    }

    /// The lines of the report.
    package var lines: [String] { [message] + excerpt + traceback + tracebackOfOrigin }

    private var tracebackOfOrigin: [String] {
        guard let origin, !origin.traceback.isEmpty else { return [] }
        return ["in \(origin.operationDescription):"] + ErrorReport(message: "", traceback: origin.traceback).traceback.dropFirst()
    }

    /// The report, with a newline at the end.
    package var text: String { lines.joined(separator: "\n") + "\n" }

    // MARK: the source line

    /// The line that the message names, and a caret below the word that the message quotes.
    var excerpt: [String] {
        guard let (name, number) = position, let line = line(number, of: name) else { return [] }
        let shown = "  " + line
        guard let column = column(in: line) else { return [shown] }
        let before = line.prefix(column).map { $0 == "\t" ? "\t" : String(repeating: " ", count: Self.width(of: $0)) }.joined()
        return [shown, "  \(before)^"]
    }

    /// The name of the chunk and the line's number with which the message begins.
    private var position: (name: String, line: Int)? {
        let parts = message.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let line = Int(parts[1]), parts[2].hasPrefix(" ") else { return nil }
        return (String(parts[0]), line)
    }

    private func line(_ number: Int, of name: String) -> String? {
        let lines = name == "stdin" ? SourceFiles.lines(of: source ?? "") : files.lines(ofFile: name)
        guard lines.indices.contains(number - 1) else { return nil }
        let line = String(lines[number - 1])
        return line.allSatisfy(\.isWhitespace) || line.count > 200 ? nil : line
    }

    /// The number of characters before the word that the message names.
    private func column(in line: String) -> Int? {
        if message.hasSuffix("near <eof>") { return line.count }
        if let word = Self.quoted(after: "near '", in: message) { return Self.last(word, in: line) }
        for kind in ["global", "local", "field", "method", "upvalue", "constant"] {
            if let word = Self.quoted(after: "\(kind) '", in: message) {
                let places = Self.places(of: word, in: line, wholeWord: true), characters = Array(line)
                // The same line may have a function and a field of the same name.
                return places.first { $0 > 0 && [".", ":"].contains(characters[$0 - 1]) == ["field", "method"].contains(kind) }
                    ?? places.first
            }
        }
        return nil
    }

    private static func quoted(after mark: String, in text: String) -> [Character]? {
        guard let start = first(Array(mark), in: text, wholeWord: false) else { return nil }
        let rest = text.dropFirst(start + mark.count)
        // A token may contain quotes. It is always the last word of the message.
        guard let end = mark.hasPrefix("near") ? rest.lastIndex(of: "'") : rest.firstIndex(of: "'") else { return nil }
        return Array(rest[..<end])
    }

    private static func places(of word: [Character], in text: String, wholeWord: Bool) -> [Int] {
        let text = Array(text)
        guard !word.isEmpty, text.count >= word.count else { return [] }
        func isPart(_ character: Character) -> Bool { character.isLetter || character.isNumber || character == "_" }
        return (0...text.count - word.count).filter { start in
            guard text[start..<start + word.count].elementsEqual(word) else { return false }
            guard wholeWord, isPart(word[0]) else { return true }
            let end = start + word.count
            return (start == 0 || !isPart(text[start - 1])) && (end == text.count || !isPart(text[end]))
        }
    }

    private static func first(_ word: [Character], in text: String, wholeWord: Bool = true) -> Int? {
        places(of: word, in: text, wholeWord: wholeWord).first
    }

    private static func last(_ word: [Character], in text: String) -> Int? { places(of: word, in: text, wholeWord: true).last }

    private static func width(of character: Character) -> Int {
        max(0, Int(ctext_width(character.unicodeScalars.first?.value ?? 32)))
    }

    // MARK: the traceback

    /// The informative frames. Empty if the only one is the typed line, or the line of the message.
    var traceback: [String] {
        let frames = stack.split(separator: "\n").dropFirst().filter { frame in
            !["\t[C]: in function 'error'", "\t[C]: in hook '?'", "\t(...tail calls...)", "\t[C]: in ?"].contains(frame)
        }
        if frames.count == 1, let (name, line) = position, frames[0].hasPrefix("\t\(name):\(line): in "),
            frames[0].hasSuffix("in main chunk") || frames[0].hasSuffix(">")
        {
            return []
        }
        guard frames.contains(where: { !($0.hasPrefix("\tstdin:") && $0.hasSuffix("in main chunk")) }) else { return [] }
        return ["stack traceback:"] + frames.map(String.init)
    }
}
