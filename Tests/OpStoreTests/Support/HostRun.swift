import Glibc
import StoreGraph
import Synchronization

/// A run of the program `StoreHost`.
final class HostRun {
    private static let count = Atomic<Int>(0)
    private let process: ChildProcess
    private let log: String
    private let printed: String

    /// 0: everything is recorded; 2: not all of it; 137: it was killed. Waits for the end.
    private(set) lazy var status: Int32 = process.wait()
    /// The events, in order: "runs 3 never ran", "done 3", "skipped 4".
    var events: [String] { lines(log) }
    /// Its output: warnings, and the results if it reached its end.
    var output: [String] { lines(printed) }

    /// - Parameter fate: The last arguments of the program.
    init(_ folder: Folder, seed: UInt64, nodes: Int, _ fate: [String] = []) throws {
        let number = Self.count.wrappingAdd(1, ordering: .relaxed).newValue
        log = "\(folder.path)/log-\(number)"
        printed = "\(folder.path)/output-\(number)"
        StoreGraph.write("", to: log)
        chmod(log, 0o666)
        let words = [folder.path, "\(seed)", "\(nodes)", log] + fate
        guard let process = ChildProcess(ChildProcess.products + "/StoreHost", words, output: printed) else { throw NotStarted() }
        self.process = process
    }

    func kill() { process.kill() }

    private func lines(_ path: String) -> [String] {
        String(decoding: StoreGraph.read(path) ?? [], as: UTF8.self).split(separator: "\n").map(String.init)
    }

    private struct NotStarted: Error {}
}
