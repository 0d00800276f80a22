import Glibc
import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Calls `body` with a runtime whose operations run in worker processes, and closes it afterwards. Its scripts have `Operation`,
/// `OperationQueue` and a queue `queue`.
@discardableResult
func withProcesses<Result>(
    workers: Int = 1, _ configure: (inout Runtime.Configuration) -> Void = { _ in }, _ body: (Runtime) throws -> Result
) throws -> Result {
    var configuration = Runtime.Configuration()
    configuration.workerCount = workers
    configuration.ignoresEnvironment = true
    configuration.isolation = .process
    configure(&configuration)
    let runtime = try Runtime(configuration)
    defer { #expect(runtime.close(deadline: .seconds(60)).isEmpty) }
    try runtime.run("Operation, OperationQueue = opscript.Operation, opscript.OperationQueue; queue = OperationQueue.new 'test'")
    return try body(runtime)
}

extension Runtime {
    /// Waits for an operation. Returns how it has ended: `ok` or the kind and the message.
    func outcome(of operation: Operation) -> String {
        do { _ = try results(of: operation) } catch let failure as OperationFailure { return "\(failure.kind): \(failure.message)" } catch {
            return "\(error)"
        }
        return "ok"
    }
}

/// `Tests/CrashingModule`, compiled. The result is deleted with this object.
final class CrashingModule {
    private let directory: String

    private static let source = #filePath.replacing("LuaBindingsTests/Support/WithProcesses.swift", with: "CrashingModule/crashing.c")

    init() throws {
        var template = Array("/tmp/opscript-crashing-XXXXXX".utf8CString)
        guard unsafe mkdtemp(&template) != nil else { throw POSIXFailure() }
        directory = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        let compiler = try Runtime()
        defer { compiler.close() }
        try compiler.run(
            """
            local source, output = ...
            local result = opscript.process({ 'cc', '-shared', '-fPIC', '-o', output, source }):wait()
            assert(result.status == 0, result.stderr)
            """, arguments: [.string(Self.source), .string("\(directory)/crashing.so")])
    }

    deinit {
        unsafe unlink("\(directory)/crashing.so")
        unsafe rmdir(directory)
    }

    var paths: [String] { ["\(directory)/?.so"] }

    private struct POSIXFailure: Error {}
}

/// Where the executables of this build are.
enum Products {
    static let folder: String = {
        var path = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = unsafe readlink("/proc/self/exe", &path, path.count)
        let text = String(decoding: path.prefix(max(0, count)).map(UInt8.init(bitPattern:)), as: UTF8.self)
        return text.lastIndex(of: "/").map { String(text[..<$0]) } ?? "."
    }()
}
