internal import CStore
import Glibc

/// A path with `*`, `?`, `[a-z]`, or `**` for any folders. It matches files. Wildcards match no dot at the beginning of a name.
struct Pattern {
    private let components: [Substring]
    private let isAbsolute: Bool

    static func isPattern(_ path: String) -> Bool {
        path.utf8.contains { $0 == UInt8(ascii: "*") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "[") }
    }

    /// `recorded` as a pattern. It ends with `path`, the text of a script. The part before that contains no wildcards.
    static func escaping(folderOf path: String, in recorded: String) -> String {
        guard recorded.utf8.count > path.utf8.count, recorded.hasSuffix(path) else { return recorded }
        var escaped = ""
        for character in recorded.dropLast(path.count) {
            if "*?[\\".contains(character) { escaped.append("\\") }
            escaped.append(character)
        }
        return escaped + path
    }

    init(_ path: String) {
        isAbsolute = path.utf8.first == UInt8(ascii: "/")
        components = path.split(separator: "/")
    }

    /// The matches of a pattern, and the folders that were looked at.
    struct Matches {
        var paths: [String] = []
        var folders: [(path: String, status: cstore_status)] = []
        /// Whether a link was followed. Its target may change without a change of these folders.
        var hasLinks = false
    }

    /// The paths that match, in the order of their bytes. Links to folders are followed, but not by `**`.
    func matches(in files: FileStates) -> Matches {
        var found = Matches()
        expand(isAbsolute ? "/" : "", components[...], in: files, &found)
        found.paths = Set(found.paths).sorted()
        return found
    }

    private func names(in folder: String, _ files: FileStates, _ found: inout Matches) -> [String] {
        // Take the status before the names, so that an entry that appears in between counts as a change.
        note(folder, files, &found)
        return files.names(in: folder.isEmpty ? "." : folder) ?? []
    }

    private func note(_ folder: String, _ files: FileStates, _ found: inout Matches) {
        let path = folder.isEmpty ? "." : folder
        found.folders.append((path, files.status(of: path)))
    }

    private func expand(_ folder: String, _ rest: ArraySlice<Substring>, in files: FileStates, _ found: inout Matches) {
        guard let first = rest.first else { return }
        let rest = rest.dropFirst()
        if first == "**" {
            expand(folder, rest.isEmpty ? ["*"] : rest, in: files, &found)
            for name in names(in: folder, files, &found) where name.utf8.first != UInt8(ascii: ".") {
                if files.kindOfEntry(folder + name) == S_IFDIR { expand(folder + name + "/", [first] + rest, in: files, &found) }
            }
        } else if Self.isPattern(String(first)) {
            for name in names(in: folder, files, &found) where unsafe fnmatch(String(first), name, FNM_PERIOD) == 0 {
                take(folder + name, rest, in: files, &found)
            }
        } else {
            note(folder, files, &found)
            take(folder + first, rest, in: files, &found)
        }
    }

    private func take(_ path: String, _ rest: ArraySlice<Substring>, in files: FileStates, _ found: inout Matches) {
        let kind = files.status(of: path).kind
        if files.kindOfEntry(path) == S_IFLNK { found.hasLinks = true }
        if rest.isEmpty {
            if kind == CSTORE_FILE { found.paths.append(path) }
        } else if kind == CSTORE_FOLDER {
            expand(path + "/", rest, in: files, &found)
        }
    }
}

extension FileStates {
    /// The kind of a folder's entry of this name: S_IFDIR, S_IFLNK. Links are not followed.
    fileprivate func kindOfEntry(_ path: String) -> mode_t {
        var found = stat()
        return unsafe fstatat(base, path, &found, AT_SYMLINK_NOFOLLOW) == 0 ? found.st_mode & S_IFMT : 0
    }
}
