import Glibc
import Reports

/// The program `dot`, which draws graphs.
struct Graphviz {
    /// The number of seconds after which Graphviz is killed.
    private static let patience = 60

    private let program: String

    /// Finds the program in `PATH`. Nil if it is not installed.
    init?() {
        let path = Environment.value("PATH") ?? "/usr/bin:/bin"
        let candidates = path.split(separator: ":").map { "\($0)/dot" }
        guard let program = candidates.first(where: { unsafe access($0, X_OK) == 0 }) else { return nil }
        self.program = program
    }

    /// Draws a graph.
    ///
    /// - Parameters:
    ///   - format: a format of Graphviz, such as `svg`.
    ///   - input: a file with the graph, at its start.
    ///   - output: an empty file.
    /// - Returns: the error; nil without one.
    func draw(_ format: String, from input: Int32, to output: Int32) -> String? {
        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe _ = posix_spawn_file_actions_destroy(&actions) }
        unsafe posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO)
        unsafe posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO)
        // The warnings of Graphviz concern the layout, which the user cannot change.
        unsafe posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)
        let (name, option) = unsafe (strdup(program), strdup("-T\(format)"))
        defer {
            unsafe free(name)
            unsafe free(option)
        }
        var words = unsafe [name, option, nil]
        var child: pid_t = 0
        // Safety: the words live until the end of this function.
        let error = unsafe posix_spawn(&child, program, &actions, nil, &words, environ)
        if error != 0 { return "cannot start '\(program)': \(unsafe String(cString: strerror(error)))" }
        return wait(for: child)
    }

    private func wait(for child: pid_t) -> String? {
        var status: Int32 = 0
        for _ in 0..<Graphviz.patience * 100 {
            let result = unsafe waitpid(child, &status, WNOHANG)
            if result == child { return status == 0 ? nil : "'\(program)' failed" }
            if result < 0 && errno != EINTR { return "'\(program)' cannot be waited for" }
            usleep(10_000)
        }
        kill(child, SIGKILL)
        unsafe _ = waitpid(child, &status, 0)
        return "'\(program)' did not end within \(Graphviz.patience) seconds"
    }
}
