import CTerminal
import Glibc
import LuaBindings

/// The reply to the Tab key.
struct Completion {
    /// The text to insert at the cursor.
    let insertion: String
    /// The names to choose from, when no text is inserted.
    let choices: [String]

    /// Completes `line`, the text before the cursor.
    init(of line: String, in runtime: Runtime) {
        let answer = (try? runtime.callConsole("complete", [.string(line)])) ?? []
        let fragment = answer.count > 1 ? answer[1].text ?? "" : ""
        if answer.first?.text == "file" {
            self.init(
                fragment: String(fragment.split(separator: "/", omittingEmptySubsequences: false).last ?? ""), Self.files(for: fragment))
        } else {
            var names: [String] = []
            while answer.count > 2, let name = answer[2][.integer(names.count + 1)].text { names.append(name) }
            self.init(fragment: fragment, names)
        }
    }

    /// Completes `fragment`, the beginning of one of `names`.
    init(fragment: String, _ names: [String]) {
        let common = names.dropFirst().reduce(names.first ?? "") { Self.commonPrefix($0, $1) }
        insertion = String(common.dropFirst(fragment.count))
        choices = insertion.isEmpty && names.count > 1 ? names : []
    }

    private static func commonPrefix(_ left: String, _ right: String) -> String {
        String(zip(left, right).prefix { $0 == $1 }.map(\.0))
    }

    /// The files whose names continue a path; directories have a slash at the end.
    private static func files(for path: String) -> [String] {
        let slash = path.lastIndex(of: "/")
        let directory = slash.map { String(path[...$0]) } ?? ""
        let prefix = slash.map { String(path[path.index(after: $0)...]) } ?? path
        guard let list = unsafe opendir(directory.isEmpty ? "." : directory) else { return [] }
        defer { unsafe closedir(list) }
        var names: [String] = []
        while let entry = unsafe readdir(list) {
            let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) {
                unsafe $0.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
            }
            guard name.hasPrefix(prefix), name != ".", name != "..", !name.hasPrefix(".") || prefix.hasPrefix(".") else { continue }
            var about = stat()
            let isDirectory = unsafe stat(directory + name, &about) == 0 && about.st_mode & S_IFMT == S_IFDIR
            names.append(isDirectory ? name + "/" : name)
        }
        return names.sorted()
    }

    /// The choices in columns, for a terminal with so many columns.
    func columns(width: Int) -> String {
        let shown = choices.prefix(200)
        let cell = (shown.map(\.count).max() ?? 0) + 2
        let perRow = max(1, width / max(1, cell))
        var rows: [String] = []
        for start in stride(from: 0, to: shown.count, by: perRow) {
            let row = shown[start..<min(start + perRow, shown.count)]
            rows.append(row.map { $0 + String(repeating: " ", count: cell - $0.count) }.joined())
        }
        if choices.count > shown.count { rows.append("and \(choices.count - shown.count) more") }
        return rows.joined(separator: "\n")
    }
}
