import CIO
import CLua
import OpEngine
import OpStore

#if canImport(Glibc)
    import Glibc
#endif

/// The part of `opscript.fetch` that makes the request, repeats it and writes the file. The part in Lua (`ScriptedFunctions.requests`) tells good
/// responses from failures.
struct Fetching {
    enum Option: String, OptionKey {
        static let names = OptionNames<Option>()
        case method, headers, body, output, timeout, connectTimeout, retries, captureLimit, cafile, netrc
    }

    private let url: [UInt8]
    private var method = Array("GET".utf8)
    /// As `Name: value`.
    private var headers: [[UInt8]] = []
    private var hasType = false
    /// Whether the headers ask for a part, so that no other part may be asked for.
    private var hasRange = false
    private var bodyIndex: Int32?
    private var output: String?
    private var timeout: Double?
    private var connectTimeout: Double?
    private var retries = 0
    private var captureLimit = 0
    private var authorities: [UInt8]?
    private var usesNetrc = false

    /// Seconds to connect, unless the option says otherwise.
    private static let usualConnectTimeout = 30.0
    private static let pauses = RetryPolicy(attempts: 2, delay: 0.5, backoff: 2, maxDelay: 30, jitter: true)

    static func fetch(_ call: Call) throws(CallError) -> Answer {
        let fetching = try Fetching(call)
        if call.state.core.io.isEnding { throw .message("the runtime is being closed: it makes no requests") }
        if let missing = unsafe cio_fetch_missing() { throw .message("opscript.fetch: \(unsafe String(cString: missing))") }
        return try fetching.run(call)
    }

    // MARK: options

    private init(_ call: Call) throws(CallError) {
        guard call.type(at: 1) == LUA_TSTRING else { throw call.expected("URL", at: 1) }
        url = try call.argument(at: 1, "the URL")
        let start = String(decoding: url.prefix(8), as: UTF8.self).lowercased()
        guard start.hasPrefix("http://") || start.hasPrefix("https://") else {
            throw .argument(1, "a URL begins with http:// or https://, got '\(String(decoding: url.prefix(100), as: UTF8.self))'")
        }
        if url.contains(where: { $0 <= 0x20 || $0 == 0x7f }) { throw .argument(1, "a URL has no spaces and control characters: write %20") }
        guard call.isTable(at: 2) else { throw call.expected("table of options", at: 2) }
        do throws(CallError) { try read(call.options(Option.self, at: 2), call) } catch {
            guard case .argument(_, let text) = error else { throw error }
            throw .argument(2, text)
        }
    }

    private mutating func read(_ options: GivenOptions<Option>, _ call: Call) throws(CallError) {
        let sandbox = call.state.core.sandbox
        for option in [Option.output, .cafile, .netrc] where options[option] != nil && !sandbox.allowsFiles {
            throw .argument(2, "\(option.rawValue) is not available here: the host of this script allows no files")
        }
        if let index = options[.body] {
            guard call.type(at: index) == LUA_TSTRING else { throw ProcessClass.option("body", "string", at: index, call) }
            (bodyIndex, method) = (index, Array("POST".utf8))
        }
        if let index = options[.method] {
            method = try call.argument(at: index, "method")
            guard !method.isEmpty, method.allSatisfy({ (0x41...0x5a).contains($0) }), method != Array("CONNECT".utf8) else {
                throw .argument(2, "method must be a method of HTTP such as \"PUT\", got '\(String(decoding: method, as: UTF8.self))'")
            }
            if bodyIndex != nil, method == Array("HEAD".utf8) { throw .argument(2, "a request with the method HEAD has no body") }
        }
        if let index = options[.headers] { try readHeaders(index, call) }
        timeout = try time(options[.timeout], "timeout", call)
        connectTimeout = try time(options[.connectTimeout], "connectTimeout", call)
        if let index = options[.retries] {
            guard let count = call.integer(at: index), (0...1000).contains(count) else {
                let given = call.integer(at: index).map { "\($0)" } ?? call.typeName(at: index)
                throw .argument(2, "retries must be an integer from 0 to 1000, got \(given)")
            }
            let name = String(decoding: method, as: UTF8.self)
            guard count == 0 || ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"].contains(name) else {
                throw .argument(2, "retries is for requests that can be repeated without harm: not for \(name)")
            }
            retries = count
        }
        captureLimit = try ProcessClass.captureLimit(options[.captureLimit], in: call.state.currentOperation as? LuaOperation, call)
        authorities = try options[.cafile].map { index throws(CallError) in try call.argument(at: index, "cafile") }
        usesNetrc = try options[.netrc].map { index throws(CallError) in try call.flag("netrc", at: index) } ?? false
        if let index = options[.output] {
            let path = try call.argument(at: index, "output")
            let text = String(decoding: path, as: UTF8.self)
            let isPath = !path.isEmpty && !text.hasSuffix("/") && Array(text.utf8) == path
            if !isPath { throw .argument(2, "output: '\(text)' is no path of a file") }
            output = text
        }
    }

    private func time(_ index: Int32?, _ name: String, _ call: Call) throws(CallError) -> Double? {
        guard let index else { return nil }
        return try call.option(name) { () throws(CallError) in try call.timeLimit(at: index) }
    }

    private mutating func readHeaders(_ index: Int32, _ call: Call) throws(CallError) {
        guard call.isTable(at: index) else { throw ProcessClass.option("headers", "table", at: index, call) }
        var (lines, hasType, hasRange) = ([[UInt8]](), false, false)
        try call.forEachField(of: index) { key, value throws(CallError) in
            guard call.type(at: key) == LUA_TSTRING else {
                throw .argument(2, "headers have names, got a \(call.typeName(at: key)) as a key")
            }
            let name = try call.argument(at: key, "the name of a header"), shown = String(decoding: name, as: UTF8.self)
            let marks = Array("!#$%&'*+-.^_`|~".utf8)
            let isToken = name.allSatisfy { byte in
                (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte) || marks.contains(byte)
            }
            if name.isEmpty || !isToken { throw .argument(2, "'\(shown)' cannot be the name of a header") }
            let text = try call.argument(at: value, "headers[\"\(shown)\"]")
            if text.contains(where: { $0 == 10 || $0 == 13 }) { throw .argument(2, "headers[\"\(shown)\"] contains a line break") }
            if shown.lowercased() == "content-type" { hasType = true }
            if ["range", "if-range"].contains(shown.lowercased()) { hasRange = true }
            // libcurl's way to send a header without a value.
            lines.append(text.isEmpty ? name + [UInt8(ascii: ";")] : name + Array(": ".utf8) + text)
        }
        (headers, self.hasType, self.hasRange) = (lines, hasType, hasRange)
    }

    // MARK: the request

    private func run(_ call: Call) throws(CallError) -> Answer {
        try call.state.makeRoom(for: .program, captureLimit)
        let charge = call.state.core.ledger.charge(.program, captureLimit)
        defer { withExtendedLifetime(charge) {} }
        let file = try output.map { path throws(CallError) in try NewFile(path) }
        defer { file?.discard() }
        let deadline = timeout.map { ContinuousClock.Instant.after($0) }
        var (number, part, validator) = (0, Int64(0), [UInt8]?.none)
        while true {
            number += 1
            let fetch = try attempt(part, validator, file, until: deadline, call)
            let result = unsafe fetch.result
            let mayRepeat = unsafe number <= retries && Self.isTransient(result, askedForPart: part > 0)
            let pause = Self.pauses.pause(after: number, random: .random(in: 0...1))
            let next = unsafe ContinuousClock.Instant.after(result.retry_after > 0 ? Double(result.retry_after) : pause)
            guard mayRepeat, deadline.map({ next < $0 }) ?? true else {
                return try unsafe answer(fetch, number, file, isLate: result.timed_out && deadline.map { $0 <= .now } ?? false, call)
            }
            // The next attempt asks for the rest of what this one has begun, if the server can tell whether that is still the same.
            if unsafe [200, 206, 416].contains(result.status) {
                validator = unsafe hasRange || result.status == 416 ? nil : Self.validator(in: result)
                part = unsafe validator == nil ? 0 : result.file_count
            }
            withExtendedLifetime(fetch) {}
            _ = try call.state.wait(deadline: next) { false }
            if call.state.currentOperation?.isCancelled ?? false { throw .stop(.interrupted) }
        }
    }

    private static func isTransient(_ result: cio_fetch_result, askedForPart: Bool) -> Bool {
        if unsafe result.problem != nil { return unsafe result.is_transient && !result.is_ended }
        return unsafe [408, 429].contains(result.status) || (500...599).contains(result.status) || result.status == 416 && askedForPart
    }

    private func attempt(
        _ part: Int64, _ validator: [UInt8]?, _ file: NewFile?, until deadline: ContinuousClock.Instant?, _ call: Call
    ) throws(CallError) -> Fetch {
        var texts = CTexts()
        texts.append(url)
        texts.append(method)
        texts.append(Array("opscript/\(Runtime.version)".utf8))
        texts.append(list: headers)
        texts.append(validator)
        texts.append(authorities)
        var request = unsafe cio_request()
        unsafe request.has_type = hasType
        if let bodyIndex { unsafe request.body = clua_string(call.lua, bodyIndex, &request.body_count) }
        unsafe request.has_file = file != nil
        unsafe request.part = part
        unsafe request.limit = captureLimit
        // At least a millisecond, because 0 stands for no limit.
        let seconds = deadline.map { max(0.001, ContinuousClock.Instant.now.duration(to: $0) / .seconds(1)) }
        unsafe request.timeout = seconds.map(IOThread.nanoseconds) ?? 0
        unsafe request.connect_timeout = IOThread.nanoseconds(connectTimeout ?? Self.usualConnectTimeout)
        unsafe request.uses_netrc = usesNetrc
        var fetch: Fetch?
        try unsafe texts.withPointers { texts throws(CallError) in
            unsafe request.url = texts.text(0)
            unsafe request.method = texts.text(1)
            unsafe request.agent = texts.text(2)
            unsafe request.headers = texts.list(3)
            unsafe request.validator = texts.text(4)
            unsafe request.authorities = texts.text(5)
            fetch = try unsafe Fetch(request, to: file?.descriptor, in: call.state)
        }
        guard let fetch else { throw .message("opscript bug: a request without a result") }
        return fetch
    }

    /// The value of If-Range for a later request: a strong entity tag, or the time of the last change; nil if the response has neither.
    private static func validator(in result: cio_fetch_result) -> [UInt8]? {
        guard let start = unsafe result.headers else { return nil }
        let text = unsafe String(decoding: UnsafeRawBufferPointer(start: start, count: result.header_count), as: UTF8.self)
        var found: [String: String] = [:]
        for line in text.split(whereSeparator: \.isNewline) {
            guard let colon = line.firstIndex(of: ":") else { continue }
            found[line[..<colon].lowercased()] = line[line.index(after: colon)...].split(separator: " ").joined(separator: " ")
        }
        let tag = found["etag"].flatMap { $0.hasPrefix("\"") ? $0 : nil }
        return (tag ?? found["last-modified"]).flatMap { $0.utf8.count < 1000 ? Array($0.utf8) : nil }
    }

    /// The table for the part in Lua. Gives the file its name if the response is whole and has a status of 2xx.
    private func answer(_ fetch: Fetch, _ attempts: Int, _ file: NewFile?, isLate: Bool, _ call: Call) throws(CallError) -> Answer {
        let result = unsafe fetch.result
        var problem: String?
        if isLate, let timeout {
            problem = "it took longer than \(timeout.scriptText) s"
        } else if unsafe result.is_ended {
            problem = "the runtime is being closed"
        } else if unsafe result.exceeded_limit {
            problem = "the body has more than \(captureLimit) bytes (captureLimit)"
        } else if let text = unsafe result.problem {
            problem = unsafe String(cString: text)
        }
        let isInFile = unsafe file != nil && problem == nil && result.status / 100 == 2
        if isInFile, let failure = unsafe file?.publish(count: result.file_count) { problem = failure }
        var texts = CTexts()
        texts.append(problem.map { Array($0.utf8) })
        texts.append(method)
        var answer = Answer.nil
        try unsafe texts.withPointers { texts throws(CallError) in
            var table = ItemTable()
            if unsafe result.status != 0 {
                unsafe table.append("status", clua_item(result.status))
                if !isInFile { unsafe table.append("body", clua_item(result.body, count: result.body_count)) }
            }
            unsafe table.append("headers", clua_item(result.headers, count: result.header_count))
            if let url = unsafe result.url { unsafe table.append("url", clua_item(url, count: strlen(url))) }
            if let problem = unsafe texts.text(0) { unsafe table.append("problem", clua_item(problem, count: strlen(problem))) }
            if let method = unsafe texts.text(1) { unsafe table.append("method", clua_item(method, count: strlen(method))) }
            unsafe table.append("attempts", clua_item(attempts))
            answer = try unsafe call.push { body in unsafe table.give(to: body) }
        }
        withExtendedLifetime(fetch) {}
        return answer
    }
}

/// A file that is written under a temporary name in the same folder.
private struct NewFile {
    let descriptor: Int32
    private let path: String
    private let temporary: String

    init(_ path: String) throws(CallError) {
        var status = stat()
        let isOther = unsafe stat(path, &status) == 0 && status.st_mode & S_IFMT != S_IFREG
        if isOther { throw .argument(2, "output: '\(path)' is no regular file") }
        self.path = path
        temporary = TemporaryName.make(for: path)
        descriptor = unsafe open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
        if descriptor < 0 { throw .message(problem) }
    }

    /// Gives the file its name, and so many bytes: an earlier attempt may have written more. Returns the reason if that is impossible.
    func publish(count: Int64) -> String? {
        unsafe ftruncate(descriptor, Int(count)) == 0 && rename(temporary, path) == 0 ? nil : problem
    }

    private var problem: String { "cannot write '\(path)': \(unsafe String(cString: strerror(errno)))" }

    /// Closes the file, and removes it if it has no name of its own.
    func discard() {
        close(descriptor)
        unsafe unlink(temporary)
    }
}

extension clua_item {
    fileprivate init(_ text: UnsafePointer<CChar>?, count: Int) {
        unsafe self.init(bytes: UnsafeRawPointer(text)?.assumingMemoryBound(to: UInt8.self), count: count)
    }
}
