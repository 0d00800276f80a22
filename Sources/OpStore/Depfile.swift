/// The files that a compiler has read, as `cc -MF` writes them: rules of make without commands.
enum Depfile {
    /// The targets and the prerequisites of all rules, in their order, each once. Nil if the text has no rule, or a line that is not a rule.
    ///
    /// As in make, a backslash at the end of a line continues it, `\#` and `\:` are the character, `$$` is a dollar sign, and 2n + 1 backslashes before a
    /// space are n of them and a space that belongs to the name.
    static func rules(in text: [UInt8]) -> (targets: [String], prerequisites: [String])? {
        if text.contains(0) { return nil }
        var parser = Parser(text: text)
        return parser.parse() ? (parser.targets, parser.names) : nil
    }

    private struct Parser {
        let text: [UInt8]
        var position = 0
        var word: [UInt8] = []
        var isTarget = true
        /// Whether the line has a target, and no colon yet.
        var hasTarget = false
        var hasRule = false
        var targets: [String] = []
        var names: [String] = []
        var seen: Set<String> = []

        private static let backslash = UInt8(ascii: "\\"), colon = UInt8(ascii: ":"), dollar = UInt8(ascii: "$")
        private static let hash = UInt8(ascii: "#"), newline = UInt8(ascii: "\n"), carriageReturn = UInt8(ascii: "\r")
        private static let blanks: [UInt8] = [UInt8(ascii: " "), UInt8(ascii: "\t")]

        init(text: [UInt8]) { self.text = text }

        func byte(at index: Int) -> UInt8? { index < text.count ? text[index] : nil }

        /// Returns whether the text has rules only.
        mutating func parse() -> Bool {
            while let byte = byte(at: position) {
                position += 1
                switch byte {
                case Self.newline:
                    endWord()
                    if hasTarget { return false }
                    isTarget = true
                case Self.carriageReturn where self.byte(at: position) == Self.newline: break
                case _ where Self.blanks.contains(byte): endWord()
                case Self.backslash: readBackslashes()
                case Self.dollar where self.byte(at: position) == Self.dollar:
                    word.append(byte)
                    position += 1
                case Self.colon where isTarget && endsTargets(self.byte(at: position)):
                    endWord()
                    (isTarget, hasTarget, hasRule) = (false, false, true)
                default: word.append(byte)
                }
            }
            endWord()
            return hasRule && !hasTarget
        }

        /// Whether a colon before this byte ends the targets. Otherwise it is part of a name.
        private func endsTargets(_ next: UInt8?) -> Bool {
            guard let next else { return true }
            return Self.blanks.contains(next) || next == Self.newline || next == Self.carriageReturn || next == Self.backslash
        }

        private mutating func readBackslashes() {
            var count = 1
            while byte(at: position) == Self.backslash {
                count += 1
                position += 1
            }
            let next = byte(at: position)
            if next == Self.newline || (next == Self.carriageReturn && byte(at: position + 1) == Self.newline) {
                word += [UInt8](repeating: Self.backslash, count: count - 1)
                endWord()
                position += next == Self.newline ? 1 : 2
            } else if let next, Self.blanks.contains(next) {
                word += [UInt8](repeating: Self.backslash, count: count / 2)
                if count % 2 == 1 {
                    word.append(next)
                    position += 1
                }
            } else if let next, next == Self.hash || (next == Self.colon && !(isTarget && endsTargets(byte(at: position + 1)))) {
                word += [UInt8](repeating: Self.backslash, count: count - 1)
                word.append(next)
                position += 1
            } else {
                word += [UInt8](repeating: Self.backslash, count: count)
            }
        }

        private mutating func endWord() {
            defer { word = [] }
            if word.isEmpty { return }
            let name = String(decoding: word, as: UTF8.self)
            if isTarget {
                hasTarget = true
                if !targets.contains(name) { targets.append(name) }
                return
            }
            if seen.insert(name).inserted { names.append(name) }
        }
    }
}
