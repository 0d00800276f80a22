/// An invalid command line.
struct UsageError: Error {
    let message: String
}

/// The command line, parsed like that of `lua`.
struct Options {
    /// The actions before the script, in this order.
    enum Step {
        case execute(String)
        case require(module: String, global: String)
        case enableWarnings
    }

    /// When to show the progress of the operations.
    enum Progress: String, CaseIterable {
        case auto, always, never
    }

    /// All words, starting with the command's own name.
    let words: [String]
    private(set) var steps: [Step] = []
    private(set) var showsLuaVersion = false
    private(set) var isInteractive = false
    private(set) var ignoresEnvironment = false
    private(set) var executes = false
    private(set) var showsHelp = false
    private(set) var showsVersion = false
    private(set) var checksOnly = false
    private(set) var limits = RunLimits()
    private(set) var store = Store()
    private(set) var cluster = ClusterOptions()
    private(set) var progress = Progress.auto
    private(set) var mayBeAttachedTo = false
    /// The level that `--log` names.
    private(set) var logLevel: LogWriter.Level?
    /// The address that `--status` names.
    private(set) var status: StatusAddress?
    /// The file that `--trace` names.
    private(set) var traceFile: String?
    /// The file that `--graph` names.
    private(set) var graphFile: String?
    /// The file that `--report` names.
    private(set) var reportFile: String?
    /// The index of the script in `words`; nil without a script.
    private(set) var script: Int?

    init(_ words: [String]) throws(UsageError) {
        self.words = words
        var index = 1
        while index < words.count {
            let word = words[index]
            guard word.hasPrefix("-"), word != "-" else { break }
            index += 1
            if word == "--" { break }
            if word.hasPrefix("--") { try readLong(word, &index) } else { try readShort(word, &index) }
        }
        if index < words.count { script = index }
        if checksOnly && script == nil { throw UsageError(message: "'--check' needs a script") }
        if let file, [traceFile, reportFile, graphFile].contains(file) {
            throw UsageError(message: "an option would overwrite the script '\(file)'")
        }
    }

    /// The files that `--check` compiles; nil stands for standard input.
    var filesToCheck: [String?] {
        guard let script else { return [] }
        return [file] + words[(script + 1)...].map { $0 == "-" ? nil : $0 }
    }

    /// The script's file. Nil for "-", which means standard input. After "--", "-" is an ordinary file name.
    var file: String? {
        guard let script else { return nil }
        return words[script] == "-" && words[script - 1] != "--" ? nil : words[script]
    }

    /// The folder of finished work: that of `--store`, or a folder beside the script. Without a file, one in the working directory.
    var storeDirectory: String {
        if let directory = store.directory { return directory }
        guard let slash = file?.lastIndex(of: "/"), let file else { return ".opscript" }
        return file[...slash] + ".opscript"
    }

    private mutating func readShort(_ word: String, _ index: inout Int) throws(UsageError) {
        switch word.dropFirst().first {
        case "E" where word == "-E": ignoresEnvironment = true
        case "W" where word == "-W": steps.append(.enableWarnings)
        case "v" where word == "-v": showsLuaVersion = true
        case "i" where word == "-i":
            isInteractive = true
            showsLuaVersion = true
        case "e":
            executes = true
            steps.append(.execute(try argument(of: word, &index)))
        case "j": try limits.readJobs(word, from: words, &index)
        case "l": steps.append(Self.requirement(try argument(of: word, &index)))
        default: throw UsageError(message: "unrecognized option '\(word)'")
        }
    }

    private mutating func readLong(_ word: String, _ index: inout Int) throws(UsageError) {
        switch word {
        case "--help": showsHelp = true
        case "--version": showsVersion = true
        case "--check": checksOnly = true
        case "--attach": mayBeAttachedTo = true
        case "--progress": progress = .always
        case _ where word.hasPrefix("--progress="):
            guard let mode = Progress(rawValue: String(word.dropFirst("--progress=".count))) else {
                throw UsageError(message: "'\(word)': after '--progress=' comes auto, always or never")
            }
            progress = mode
        case _ where word == "--log" || word.hasPrefix("--log="): try readLogLevel(word, &index)
        case _ where word == "--status" || word.hasPrefix("--status="): try readStatus(word, &index)
        default:
            if try readFile(word, &index) { return }
            if try store.read(word, from: words, &index) { return }
            if try cluster.read(word, from: words, &index) { return }
            if try !limits.read(word, from: words, &index) { throw UsageError(message: "unrecognized option '\(word)'") }
        }
    }

    /// The title of the run in a trace, a graph or a report.
    var title: String { file ?? "stdin" }

    /// Reads an option that names a file, which follows `=` or is the next word. Returns false if `word` is no option of this kind.
    private mutating func readFile(_ word: String, _ index: inout Int) throws(UsageError) -> Bool {
        let option = word.split(separator: "=", omittingEmptySubsequences: false).first.map(String.init) ?? word
        guard ["--trace", "--report", "--graph"].contains(option) else { return false }
        let path = value(of: word, &index)
        if path.isEmpty { throw UsageError(message: "'\(option)' needs a file") }
        // The file is overwritten, so a script in its place would be lost.
        if path.hasSuffix(".lua") { throw UsageError(message: "'\(option)' needs a file to write, and not the script '\(path)'") }
        if [traceFile, reportFile, graphFile].contains(path) { throw UsageError(message: "two options write the same file '\(path)'") }
        switch option {
        case "--trace": traceFile = path
        case "--report": reportFile = path
        default:
            guard [".dot", ".svg", ".png"].contains(where: { path.hasSuffix($0) }) else {
                throw UsageError(message: "'--graph' needs a file that ends in .dot, .svg or .png, and not '\(path)'")
            }
            graphFile = path
        }
        return true
    }

    private mutating func readLogLevel(_ word: String, _ index: inout Int) throws(UsageError) {
        guard let level = LogWriter.Level(rawValue: value(of: word, &index)) else {
            throw UsageError(message: "'--log' needs a level: error, warning, info or debug")
        }
        logLevel = level
    }

    private mutating func readStatus(_ word: String, _ index: inout Int) throws(UsageError) {
        let text = value(of: word, &index)
        guard let address = StatusAddress(text) else {
            throw UsageError(message: "'--status' needs a port, or an IP address and a port such as 127.0.0.1:8080, and not '\(text)'")
        }
        status = address
    }

    /// The value of a long option: the text after `=`, or else the next word. Empty without a value.
    private func value(of word: String, _ index: inout Int) -> String {
        if let equals = word.firstIndex(of: "=") { return String(word[word.index(after: equals)...]) }
        guard index < words.count else { return "" }
        defer { index += 1 }
        return words[index]
    }

    /// The argument of an option: the rest of the word, or else the next word.
    private func argument(of word: String, _ index: inout Int) throws(UsageError) -> String {
        if word.utf8.count > 2 { return String(word.dropFirst(2)) }
        guard index < words.count, !words[index].hasPrefix("-") else { throw UsageError(message: "'\(word)' needs argument") }
        defer { index += 1 }
        return words[index]
    }

    /// Parses `module` or `global=module`.
    private static func requirement(_ text: String) -> Step {
        guard let equals = text.firstIndex(of: "=") else { return .require(module: text, global: text) }
        return .require(module: String(text[text.index(after: equals)...]), global: String(text[..<equals]))
    }
}
