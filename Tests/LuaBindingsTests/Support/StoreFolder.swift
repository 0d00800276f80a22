import Glibc
import LuaBindings
import OpEngine
import TestSupport
import Testing

/// A folder with files for scripts and a store, which is deleted with this object.
final class StoreFolder: Sendable {
    let path: String
    private let explained = Locked<[String]>([])

    init() throws {
        var template = Array("/tmp/opscript-store-XXXXXX".utf8CString)
        try #require(unsafe mkdtemp(&template) != nil)
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    deinit { Self.remove(path) }

    private static func remove(_ path: String) {
        guard let folder = unsafe opendir(path) else {
            _ = unsafe unlink(path)
            return
        }
        while let entry = unsafe readdir(folder) {
            let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) {
                unsafe String(cString: UnsafeRawPointer($0).assumingMemoryBound(to: CChar.self))
            }
            if name != ".", name != ".." { remove("\(path)/\(name)") }
        }
        unsafe closedir(folder)
        _ = unsafe rmdir(path)
    }

    /// Replaces the file. Nil deletes it.
    subscript(name: String) -> String? {
        get {
            guard let file = unsafe fopen("\(path)/\(name)", "r") else { return nil }
            defer { unsafe fclose(file) }
            var bytes: [UInt8] = []
            while case let byte = unsafe getc(file), byte != EOF { bytes.append(UInt8(truncatingIfNeeded: byte)) }
            return String(decoding: bytes, as: UTF8.self)
        }
        set {
            let path = "\(path)/\(name)"
            guard let text = newValue else {
                _ = unsafe unlink(path)
                return
            }
            guard let file = unsafe fopen(path, "w") else { return }
            unsafe fputs(text, file)
            unsafe fclose(file)
        }
    }

    /// The decisions since the last call: `NAME: skipped`, `NAME: runs: REASON`, `NAME: not recorded: REASON`.
    func explanations() -> [String] { explained.withLock { exchange(&$0, with: []) } }

    /// Runs a script in a runtime of its own, with everything that it leaves to run. The script has `queue`, `Operation`, `folder`, which is the path,
    /// and `note(text)`, which adds a line to the file `ran`. Returns the results of the script.
    @discardableResult
    func run(
        mode: Runtime.Store.Mode = .normal, workers: Int = 2, _ source: String,
        _ change: (inout Runtime.Configuration) -> Void = { _ in }
    ) throws -> [LuaValue] {
        var configuration = Runtime.Configuration()
        configuration.workerCount = workers
        configuration.ignoresEnvironment = true
        var store = Runtime.Store(directory: "\(path)/.opscript")
        store.mode = mode
        let explained = explained
        store.explain = { explanation in
            let decision =
                switch explanation.decision {
                case .isSkipped: "skipped"
                case .runs(let reason): "runs: \(reason)"
                case .isNotRecorded(let reason): "not recorded: \(reason)"
                }
            explained.withLock { $0.append("\(explanation.name): \(decision)") }
        }
        configuration.store = store
        change(&configuration)
        let runtime = try Runtime(configuration)
        defer { #expect(runtime.close(deadline: .seconds(30)).isEmpty) }
        try runtime.run(
            """
            Operation, queue, folder = opscript.Operation, opscript.OperationQueue.new 'test', ...
            package.path = folder .. '/?.lua'
            if io then
                local path = folder .. '/ran'
                function note(text)
                    local file <close> = assert(io.open(path, 'a'))
                    file:write(text, '\\n')
                end
            end
            function perform(options)
                local op = Operation.new(options)
                queue:addOperation(op):waitUntilFinished()
                return op
            end
            """, arguments: [.string(path)])
        let values = try runtime.run(source)
        _ = try runtime.finish()
        return values
    }

    /// The lines that scripts have noted since the last call.
    func notes() -> [String] {
        defer { self["ran"] = nil }
        return self["ran"]?.split(separator: "\n").map(String.init) ?? []
    }
}
