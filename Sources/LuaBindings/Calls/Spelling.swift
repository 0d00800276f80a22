/// Finds the known name that is nearest to a misspelt one.
enum Spelling {
    /// ` (did you mean 'name'?)`, or the list of known names if none is near.
    static func suggestion(for name: String, among names: [String]) -> String {
        if let near = nearest(to: name, among: names, within: max(2, name.utf8.count / 2)) { return " (did you mean '\(near)'?)" }
        return "; known are \(names.joined(separator: ", "))"
    }

    /// The name with the smallest distance, if that is at most `limit`.
    static func nearest(to name: String, among names: [String], within limit: Int) -> String? {
        // Names that differ more in their lengths have a larger distance, which would take long for a long name.
        names.filter { abs($0.utf8.count - name.utf8.count) <= limit }.map { ($0, distance(name, $0)) }.filter { $0.1 <= limit }.min {
            $0.1 < $1.1
        }?.0
    }

    /// The number of insertions, deletions, replacements and swaps of neighbours that turn one name into the other, ignoring case.
    static func distance(_ left: String, _ right: String) -> Int {
        let left = Array(left.lowercased().utf8), right = Array(right.lowercased().utf8)
        var rows = [Array(0...right.count)]
        for i in 1...max(1, left.count) where i <= left.count {
            var row = [i]
            for j in 1...max(1, right.count) where j <= right.count {
                var best = min(rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1))
                if i > 1, j > 1, left[i - 1] == right[j - 2], left[i - 2] == right[j - 1] { best = min(best, rows[i - 2][j - 2] + 1) }
                row.append(best)
            }
            rows.append(row)
        }
        return rows[left.count][right.count]
    }
}
