import CTestSupport
import LuaBindings
import OpEngine
import Synchronization
import TestSupport
import Testing

#if canImport(Glibc)
    import Glibc
#endif

/// The scripts of `Tests/Hostile`, each in a runtime with the sandbox and limits for untrusted scripts.
@Suite struct HostileScriptTests {
    @Test func eachEndsAsItsFirstLineSaysAndHarmsNobody() async throws {
        let scripts = try HostileScript.all()
        #expect(scripts.count >= 150)
        await run(sample(of: scripts, every: 2))
    }

    @Test func eachEndsThatWayInAWorkerProcess() async throws {
        await run(sample(of: try HostileScript.all(), every: 4), isolation: .process)
    }

    /// All scripts in a long run, otherwise a part of them, which is another one each time.
    private func sample(of scripts: [HostileScript], every distance: Int) -> [HostileScript] {
        let stride = TestLength.isLong ? 1 : distance * (TestLength.isQuick ? 8 : TestLength.isShort ? 2 : 1)
        let first = Int.random(in: 0..<stride)
        return scripts.enumerated().filter { $0.offset % stride == first }.map(\.element)
    }

    private func run(_ scripts: [HostileScript], isolation: Runtime.Isolation = .threads, mayEndAnyhow: Bool = false) async {
        let next = Atomic<Int>(0), left = Atomic<Int>(5), complaints = Log<String>()
        // Suspends, because other tests need the threads of the pool meanwhile.
        await withCheckedContinuation { done in
            let end: @Sendable () -> Void = { if left.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 { done.resume() } }
            for _ in 0..<4 {
                _ = TestThread {
                    defer { end() }
                    while true {
                        let index = next.wrappingAdd(1, ordering: .relaxed).oldValue
                        guard index < scripts.count else { return }
                        do {
                            if let complaint = try scripts[index].complaint(isolation: isolation, mayEndAnyhow: mayEndAnyhow) {
                                complaints.append("\(scripts[index].name): \(complaint)")
                            }
                        } catch { complaints.append("\(scripts[index].name): the test itself failed: \(error)") }
                    }
                }
            }
            _ = TestThread {
                defer { end() }
                do { try HostileScript.runNeighbour(isolation: isolation, until: { next.load(ordering: .relaxed) >= scripts.count }) } catch
                {
                    complaints.append("another runtime: \(error)")
                }
            }
        }
        for complaint in complaints.entries.sorted() { Issue.record("\(complaint)") }
    }

    private static let generated = unsafe getenv("OPSCRIPT_HOSTILE").map { unsafe String(cString: $0) }

    /// For `scripts/fuzz hostile`: each script of the folder in OPSCRIPT_HOSTILE may end as it likes, but must end and do no harm.
    @Test(.enabled(if: generated != nil))
    func eachGeneratedScriptEndsAndHarmsNobody() async throws {
        await run(try HostileScript.all(in: try #require(Self.generated)), mayEndAnyhow: true)
    }
}

/// A script, and how it may end: `ok`, `timeout`, `memory`, or `error: ` and a part of the message. Several ends are separated by `|`.
private struct HostileScript: Sendable {
    let name: String
    let source: String
    let ends: [String]

    static func all(in folder: String = #filePath.replacing("LuaBindingsTests/HostileScriptTests.swift", with: "Hostile")) throws -> [Self]
    {
        let names = try FileNames.inFolder(folder).filter { $0.hasSuffix(".lua") }.sorted()
        return try names.map { name in
            let source = try FileNames.contents(of: "\(folder)/\(name)")
            let prefix = "-- expect: "
            let first = source.prefix { $0 != "\n" }
            let ends = first.hasPrefix(prefix) ? first.dropFirst(prefix.count).split(separator: "|").map(String.init) : []
            return HostileScript(name: name, source: source, ends: ends)
        }
    }

    /// - Parameters: the seconds for an operation and for a run.
    private static func configuration(seconds: Double, runSeconds: Double, isolation: Runtime.Isolation) -> Runtime.Configuration {
        var configuration = Runtime.Configuration()
        configuration.isolation = isolation
        configuration.workerCount = 2
        configuration.ignoresEnvironment = true
        configuration.sandbox = .untrusted
        configuration.stateMemoryLimit = 64 << 20
        var limits = Runtime.Limits.untrusted
        limits.operationSeconds = seconds
        limits.operationMemory = 16 << 20
        limits.runSeconds = runSeconds
        limits.outputBytes = 3000
        limits.memory = 24 << 20
        limits.operations = 1000
        limits.queueLength = 100
        configuration.limits = limits
        return configuration
    }

    /// The contents of the libraries, which a body must find after any other body.
    private static let look = """
        local function look()
            assert(("x"):rep(3) == "xxx" and ("a,b"):find(",", 1, true) == 2 and string.format("%d", 7) == "7")
            assert(table.concat({ 1, 2 }) == "12" and math.floor(2.5) == 2 and ("abc"):gsub("b", "") == "ac" and not pcall(error))
            assert(print and load and opscript.sleep and opscript.OperationQueue.new and opscript.Operation.new and string.dump == nil)
            assert(require "string" == string and getmetatable("").__index == string and not pcall(function() return "a" + "b" end))
            assert(getmetatable(_G) == nil and x == nil and utf8.char(65) == "A" and next(package.preload) == nil)
            return "unharmed"
        end
        """

    /// Runs the script as an operation, with operations of other runs beside it and after it in the same runtime.
    ///
    /// - Returns: what is wrong; nil if all is well.
    func complaint(isolation: Runtime.Isolation = .threads, mayEndAnyhow: Bool = false) throws -> String? {
        // A busy machine needs longer to fill the memory, and so do sanitizers. The limits are those of the bystanders as well.
        let isForTime = mayEndAnyhow || ends.contains("timeout")
        let longest = has_thread_sanitizer() || has_address_sanitizer() ? 120.0 : 30
        let runtime = try Runtime(
            Self.configuration(
                seconds: mayEndAnyhow ? 5 : isForTime ? 0.3 : longest, runSeconds: mayEndAnyhow ? 2 : isForTime ? 10 : longest,
                isolation: isolation))
        var isClosed = false
        defer { if !isClosed { runtime.close() } }
        let values = try runtime.run(
            Self.look + """

                local source, name = ...
                local op = opscript.Operation.new(function(op, source, name)
                    local f, message = load(source, name)
                    if not f then error(message, 0) end
                    return f(op)
                end, source, "=" .. name)
                opscript.OperationQueue.new():addOperation(op)
                return op, opscript.Operation.new(look), opscript.Operation.new(look), opscript.Operation.new(look)
                """, arguments: [.string(source), .string(name)])
        // The host's operations are a run of their own, which does not pay for what the hostile run uses up.
        let operations = values.compactMap(\.operation), others = OperationQueue(engine: runtime.engine)
        others.addOperation(operations[1])
        let begin = ContinuousClock.now
        var end = "ok"
        do { _ = try runtime.results(of: operations[0]) } catch let failure as OperationFailure {
            end = failure.kind == .error ? "error: \(failure.message)" : failure.kind.rawValue
        } catch { end = "error: \(error)" }
        others.addOperations(Array(operations[2...]), waitUntilFinished: false)
        for bystander in operations.dropFirst() {
            do {
                let results = try runtime.results(of: bystander)
                if results != ["unharmed"] { return "a bystander returned \(results)" }
            } catch { return "a bystander failed: \(error)" }
        }
        runtime.interruptAllOperations()
        // A script that was made at random may call a chain of `__call`, which is bounded but takes long if the machine is busy.
        let left = runtime.close(deadline: .seconds(mayEndAnyhow ? 40 : 10))
        isClosed = true
        if !left.isEmpty { return "these did not end: \(left)" }
        // So long that no slow machine fails, but not for ever.
        if ContinuousClock.now - begin > .seconds(60) { return "it took \(ContinuousClock.now - begin)" }
        if mayEndAnyhow
            || ends.contains(where: { end == $0 || $0.hasPrefix("error") && end.hasPrefix("error") && end.contains($0.dropFirst(7)) })
        {
            return nil
        }
        return "it ended with \(end.prefix(300))"
    }

    /// Runs operations in a runtime of its own, and checks each result.
    static func runNeighbour(isolation: Runtime.Isolation, until isOver: () -> Bool) throws {
        let runtime = try Runtime(configuration(seconds: 30, runSeconds: 30, isolation: isolation))
        defer { runtime.close() }
        try runtime.run("queue = opscript.OperationQueue.new()")
        for _ in 0..<400 where !isOver() {
            let operation = try runtime.run(look + "\nreturn queue:addOperation(look)")[0].operation
            guard let operation, try runtime.results(of: operation) == ["unharmed"] else { throw LuaValueError() }
        }
    }

    private struct LuaValueError: Error {}
}

/// The few calls of the file system that the tests need.
private enum FileNames {
    static func inFolder(_ path: String) throws -> [String] {
        guard let folder = unsafe opendir(path) else { throw Missing(path: path) }
        defer { unsafe closedir(folder) }
        var names: [String] = []
        while let entry = unsafe readdir(folder) {
            unsafe names.append(withUnsafePointer(to: &entry.pointee.d_name.0) { unsafe String(cString: $0) })
        }
        return names
    }

    static func contents(of path: String) throws -> String {
        guard let file = unsafe fopen(path, "r") else { throw Missing(path: path) }
        defer { unsafe fclose(file) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = unsafe fread(&piece, 1, piece.count, file)
            if count == 0 { return String(decoding: bytes, as: UTF8.self) }
            bytes += piece[..<count]
        }
    }

    struct Missing: Error { let path: String }
}
