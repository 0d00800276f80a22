import CTerminal

/// The descriptions of the functions and fields of the module, from the annotations for lua-language-server.
struct Reference {
    private struct Entry {
        /// The name without `opscript.` before a class, such as `Operation:get`.
        let name: Substring
        let lines: [String]

        /// The name after the last dot or colon.
        var member: Substring { name[(name.lastIndex { $0 == "." || $0 == ":" }.map { name.index(after: $0) } ?? name.startIndex)...] }
    }

    private var entries: [Entry] = []

    init() {
        let text = unsafe String(cString: ct_annotations())
        var owner: Substring = ""
        var comment: [Substring] = []
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("---@class ") {
                owner = Self.withoutModule(line.dropFirst(10).prefix { $0 != ":" && $0 != " " })
                entries.append(Entry(name: owner, lines: [String(owner)] + comment.map { "  \($0.dropFirst(3))" }))
                comment = []
            } else if line.hasPrefix("---@field ") {
                let parts = line.dropFirst(10).split(separator: " ", maxSplits: 1)
                guard let name = parts.first?.prefix(while: { $0 != "?" }), parts.count == 2, !name.hasPrefix("[") else { continue }
                entries.append(Entry(name: "\(owner).\(name)", lines: ["\(owner).\(name): \(parts[1])"]))
            } else if line.hasPrefix("---") {
                comment.append(line)
            } else {
                if line.hasPrefix("function "), let end = line.lastIndex(of: ")") {
                    let signature = line[...end].dropFirst(9)
                    entries.append(Entry(name: signature.prefix { $0 != "(" }, lines: [String(signature)] + Self.described(comment)))
                }
                comment = []
            }
        }
    }

    /// The lines about a name, which may begin with a variable, as in `op:get`; nil if there are none.
    func lines(about name: String) -> [String]? {
        let name = Self.withoutModule(name[...])
        let member = Entry(name: name, lines: []).member
        var found = entries.filter { $0.name == name || "opscript.\(name)" == $0.name }
        if found.isEmpty { found = entries.filter { $0.member == member && $0.name != member } }
        return found.isEmpty ? nil : found.flatMap(\.lines)
    }

    private static func withoutModule(_ name: Substring) -> Substring { name.hasPrefix("opscript.") ? name.dropFirst(9) : name }

    /// The comment of a function, with a line for each parameter and result.
    private static func described(_ comment: [Substring]) -> [String] {
        comment.compactMap { line in
            for (mark, shown) in [("---@param ", "    "), ("---@return ", "    returns ")] where line.hasPrefix(mark) {
                return shown + line.dropFirst(mark.count)
            }
            return line.hasPrefix("---@") ? nil : "  \(line.dropFirst(3))"
        }
    }
}
