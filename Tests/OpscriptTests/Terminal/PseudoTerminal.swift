import CTestSupport
import Glibc

/// A program, usually the command, in a pseudo-terminal, byte by byte.
final class PseudoTerminal {
    private let descriptor: Int32
    private var process: Int32 = 0
    /// All output of the command.
    private(set) var output: [UInt8] = []

    init(_ arguments: [String], program: String = Paths.opscript, columns: Int = 80, home: ScratchDirectory) throws {
        let words = [program] + arguments
        let environment = ["TERM=xterm", "LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin", "XDG_STATE_HOME=\(home.path)", "HOME=\(home.path)"]
        var process: Int32 = 0
        let copies = unsafe (words.map { unsafe strdup($0) }, environment.map { unsafe strdup($0) })
        defer { unsafe (copies.0 + copies.1).forEach { unsafe free($0) } }
        let pointers = unsafe (
            copies.0.map { unsafe UnsafePointer($0) } + [nil], copies.1.map { unsafe UnsafePointer($0) } + [nil]
        )
        descriptor = unsafe spawn_in_terminal(pointers.0, pointers.1, Int32(columns), &process)
        self.process = process
        guard descriptor >= 0 else { throw CommandError(description: "no pseudo-terminal") }
    }

    deinit {
        kill(process, SIGKILL)
        close(descriptor)
    }

    /// The lines of the output that begin with `prefix`, after the removal of sequences that erase a row.
    func lines(beginning prefix: String) -> [String] {
        String(decoding: output, as: UTF8.self).replacing("\u{1b}[J", with: "\n").split(whereSeparator: \.isNewline)
            .filter { $0.hasPrefix(prefix) }.map(String.init)
    }

    func type(_ text: String) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = unsafe bytes.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
            if count < 0 && errno != EINTR { return }
            bytes = bytes.dropFirst(max(0, count))
        }
    }

    /// Reads until `isEnough` accepts the output since the last call, for at most 30 seconds. Returns that output.
    @discardableResult
    func read(until isEnough: (String) -> Bool) throws -> String {
        var new: [UInt8] = []
        let end = ContinuousClock.now + .seconds(30)
        while !isEnough(String(decoding: new, as: UTF8.self)) {
            guard readSome(&new), ContinuousClock.now < end else {
                throw CommandError(description: "the terminal shows \(String(decoding: new, as: UTF8.self).debugDescription)")
            }
        }
        return String(decoding: new, as: UTF8.self)
    }

    /// Reads to the end. Returns the exit status.
    func finish() -> Int32 {
        var rest: [UInt8] = []
        while readSome(&rest) {}
        return wait_for_process(process)
    }

    private func readSome(_ new: inout [UInt8]) -> Bool {
        var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard unsafe poll(&event, 1, 30_000) > 0 else { return false }
        var buffer = [UInt8](repeating: 0, count: 65536)
        let count = unsafe buffer.withUnsafeMutableBytes { unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }
        guard count > 0 else { return false }
        new += buffer[..<count]
        output += buffer[..<count]
        return true
    }
}
