import LuaBindings

/// The limits that the command line sets for a run.
struct RunLimits {
    private(set) var workerCount: Int?
    /// Seconds after which everything is stopped.
    private(set) var timeout: Double?
    /// The timeout as it was typed.
    private(set) var timeoutText = ""
    /// Seconds from one signal to the next when a program is ended.
    private(set) var grace: Double?
    /// The memory limit of each operation in bytes.
    private(set) var memory: Int?
    private(set) var endsAtFirstFailure = false
    private(set) var usesJobserver = true
    private(set) var jobserverStyle = Jobserver.Style.pipe

    /// Reads an option, whose value follows `=` or is the next word. Returns false if `word` is no option of this kind.
    mutating func read(_ word: String, from words: [String], _ index: inout Int) throws(UsageError) -> Bool {
        if ["--fail-fast", "--keep-going"].contains(word) {
            endsAtFirstFailure = word == "--fail-fast"
            return true
        }
        if word == "--no-jobserver" {
            usesJobserver = false
            return true
        }
        let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let option = parts[0]
        guard ["--workers", "--timeout", "--grace", "--memory-limit", "--jobserver-style"].contains(option) else { return false }
        var value: String? = parts.count > 1 ? parts[1] : nil
        if value == nil, index < words.count {
            value = words[index]
            index += 1
        }
        switch option {
        case "--workers": workerCount = try Self.parse(value, for: option, "a positive number", Self.count)
        case "--jobserver-style": jobserverStyle = try Self.parse(value, for: option, "a form, pipe or fifo", Jobserver.Style.init)
        case "--timeout":
            timeout = try Self.parse(value, for: option, "a positive number of seconds", Self.seconds)
            timeoutText = value ?? ""
        case "--grace": grace = try Self.parse(value, for: option, "a number of seconds, such as 0 or 2.5", Self.number)
        default:
            memory = try Self.parse(value, for: option, "a size: \(ByteSize.form), such as 512M", ByteSize.parse)
        }
        return true
    }

    /// Reads the rest of a word that begins with `-j`, or the next word.
    mutating func readJobs(_ word: String, from words: [String], _ index: inout Int) throws(UsageError) {
        var value: String? = word.count > 2 ? String(word.dropFirst(2)) : nil
        if value == nil, index < words.count {
            value = words[index]
            index += 1
        }
        workerCount = try Self.parse(value, for: "-j", "a positive number", Self.count)
    }

    private static func count(_ text: String) -> Int? { Int(text).flatMap { $0 > 0 ? $0 : nil } }

    private static func parse<Value>(
        _ text: String?, for option: String, _ expected: String, _ parser: (String) -> Value?
    ) throws(UsageError) -> Value {
        guard let text else { throw UsageError(message: "'\(option)' needs \(expected)") }
        guard let value = parser(text) else { throw UsageError(message: "'\(option)' needs \(expected), got '\(text)'") }
        return value
    }

    private static func seconds(_ text: String) -> Double? { number(text).flatMap { $0 > 0 ? $0 : nil } }

    private static func number(_ text: String) -> Double? {
        text.allSatisfy({ $0.isASCII && ($0.isNumber || $0 == ".") }) ? Double(text) : nil
    }
}
