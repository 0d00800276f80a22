import OpStore

/// The inputs that an operation needs and that do not exist.
struct MissingInputs {
    /// Names each, and the nearest existing name.
    let sentence: String

    /// A message with more would not be read.
    private static let limit = 5

    /// Nil if all inputs exist.
    init?(of work: Work) {
        let missing = work.missingInputs
        if missing.isEmpty { return nil }
        let causes = missing.prefix(Self.limit).map { input in
            let what = input.isPattern ? "no file matches its input" : "it has no input"
            return "\(what) '\(input.path)'\(Self.hint(for: input.path, work))"
        }
        let rest = missing.count > Self.limit ? "; and \(missing.count - Self.limit) more" : ""
        let remedies = "an operation that makes an input must be a dependency; an input that may be missing is { path, optional = true }"
        sentence = "\(causes.joined(separator: "; "))\(rest) (\(remedies))"
    }

    /// ` (did you mean 'main.c'?)`, with the first part of the path that does not exist.
    private static func hint(for path: String, _ work: Work) -> String {
        var known = ""
        for part in path.split(separator: "/", omittingEmptySubsequences: false) {
            let next = known + part
            if part.isEmpty || part == "." || part == ".." {
                known = next + "/"
                continue
            }
            let names = work.names(nextTo: next)
            if names.contains(String(part)) {
                known = next + "/"
                continue
            }
            let near = Spelling.nearest(to: String(part), among: names, within: part.utf8.count > 4 ? 2 : 1)
            return near.map { " (did you mean '\(known)\($0)\(path.dropFirst(next.count))'?)" } ?? ""
        }
        return ""
    }
}
