import Glibc

/// Kills programs that the tests have started when the process of the tests ends, however that happens.
enum ProcessGuard {
    /// A separate program. The end of its input tells it that the process of the tests has ended.
    private static let script = """
        trap '' HUP INT TERM
        declare -A watched
        while read -r action process; do
          if [[ $action == watch ]]; then watched[$process]=yes; else unset "watched[$process]"; fi
        done
        for process in "${!watched[@]}"; do kill -KILL "$process"; done
        """

    /// The input of the guard.
    private static let input: Int32 = {
        do {
            let input = try ChildProcess.makePipe()
            let nothing = unsafe open("/dev/null", O_RDWR | O_CLOEXEC)
            _ = try ChildProcess(
                program: "bash", arguments: ["bash", "-c", script], environment: ["PATH=/usr/bin:/bin"],
                streams: [input.read, nothing, nothing])
            close(input.read)
            close(nothing)
            return input.write
        } catch { fatalError("no guard for the programs that tests start: \(error)") }
    }()

    /// Makes the guard kill a program at the end.
    static func watch(_ process: pid_t) { say("watch \(process)\n") }

    /// Makes the guard forget a program, which has ended.
    static func forget(_ process: pid_t) { say("forget \(process)\n") }

    private static func say(_ line: String) {
        let bytes = Array(line.utf8)
        unsafe write(input, bytes, bytes.count)
    }
}
