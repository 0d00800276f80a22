import CTestSupport
import Glibc

/// A program of this package or of the system, whose output goes nowhere.
struct ChildProcess {
    let identifier: pid_t

    /// The folder of the package's products.
    static let products: String = {
        var path = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &path, path.count)
        let text = String(decoding: path.prefix(max(0, count)).map(UInt8.init(bitPattern:)), as: UTF8.self)
        return text.lastIndex(of: "/").map { String(text[..<$0]) } ?? "."
    }()

    /// Starts a program. `output` gets what it prints. Nil if it cannot be started.
    init?(_ program: String, _ arguments: [String], output: String = "/dev/null") {
        var words: [UnsafeMutablePointer<CChar>?] = ([program] + arguments).map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0o666)
        var identifier: pid_t = 0
        guard posix_spawn(&identifier, program, &actions, nil, &words, environ) == 0 else { return nil }
        self.identifier = identifier
    }

    /// Waits for it. Returns its exit status; 128 + n if signal n ended it.
    func wait() -> Int32 { wait_for_process(identifier) }

    func kill() { Glibc.kill(identifier, SIGKILL) }
}
