import LuaBindings

extension Options {
    /// The options of the command line for finished work.
    struct Store {
        /// The folder that `--store` names. Nil: `.opscript` beside the script.
        private(set) var directory: String?
        private(set) var limit: Int?
        private(set) var mode = Runtime.Store.Mode.normal
        /// Whether `--explain` asks why operations run.
        private(set) var explains = false

        /// Reads an option, whose value follows `=` or is the next word. Returns false if `word` is no option of this kind.
        mutating func read(_ word: String, from words: [String], _ index: inout Int) throws(UsageError) -> Bool {
            switch word {
            case "--explain": explains = true
            case "--dry-run": try set(.dryRun)
            case "--always-run": try set(.alwaysRun)
            default:
                let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
                guard ["--store", "--store-limit"].contains(parts[0]) else { return false }
                var value = parts.count > 1 ? parts[1] : ""
                if parts.count == 1, index < words.count {
                    value = words[index]
                    index += 1
                }
                try set(parts[0], value)
            }
            return true
        }

        private mutating func set(_ mode: Runtime.Store.Mode) throws(UsageError) {
            if self.mode != .normal, self.mode != mode { throw UsageError(message: "'--dry-run' and '--always-run' exclude each other") }
            self.mode = mode
        }

        private mutating func set(_ option: String, _ value: String) throws(UsageError) {
            if option == "--store" {
                if value.isEmpty { throw UsageError(message: "'--store' needs a folder") }
                directory = value
                return
            }
            guard let size = ByteSize.parse(value), size > 0 else {
                let got = value.isEmpty ? "" : ", got '\(value)'"
                throw UsageError(message: "'--store-limit' needs a size: \(ByteSize.form), such as 512M\(got)")
            }
            limit = size
        }
    }
}
