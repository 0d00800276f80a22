import Glibc

/// A program with its input and arguments. `run()` runs it to its end and returns its outcome.
///
/// The environment contains only `PATH` and `environment`, so that no setting of the developer reaches the program.
struct Command {
    /// A path, or a name that is searched for in `PATH`.
    var program: String
    /// The name that the program finds in `argv[0]`.
    var name: String
    var arguments: [String] = []
    var input = ""
    var environment: [String: String] = [:]
    /// The directory in which it runs; nil means the current one.
    var directory: String?
    /// After so many seconds the program is killed, and the test fails.
    var timeout = 60

    /// The command under test: `OPSCRIPT_COMMAND`, or the optimised build of this package.
    static func opscript(_ arguments: String...) -> Command {
        Command(program: Paths.opscript, name: "opscript", arguments: arguments)
    }

    /// The stock interpreter, for comparison.
    static func lua(_ arguments: String...) -> Command {
        Command(program: "lua5.4", name: "opscript", arguments: arguments)
    }

    /// A shell, for pipelines. The shell variable `OPSCRIPT` has the path of the command under test.
    static func shell(_ script: String, _ arguments: String...) -> Command {
        Command(
            program: "/bin/sh", name: "sh", arguments: ["-c", script, "sh"] + arguments, environment: ["OPSCRIPT": Paths.opscript])
    }

    /// The command with `text` as its standard input.
    func input(_ text: String) -> Command {
        var copy = self
        copy.input = text
        return copy
    }

    /// The command, running in the directory `path`.
    func directory(_ path: String) -> Command {
        var copy = self
        copy.directory = path
        return copy
    }

    /// The command with a limit, in bytes, for memory that it can write to and that is not a file's.
    func limited(toDataOf bytes: Int) -> Command {
        var copy = self
        copy.program = "prlimit"
        copy.name = "prlimit"
        copy.arguments = ["--data=\(bytes)", program] + arguments
        return copy
    }

    /// The command with additional environment variables.
    func environment(_ variables: [String: String]) -> Command {
        var copy = self
        copy.environment.merge(variables) { $1 }
        return copy
    }

    /// Runs the program to its end. Blocks the calling thread.
    func run() throws -> Outcome {
        // A file takes any amount of output without a reader.
        let input = try ScratchFile(holding: Array(input.utf8))
        let output = try ScratchFile()
        let errors = try ScratchFile()
        let child = try self.start(streams: [input.descriptor, output.descriptor, errors.descriptor])
        guard let status = try child.wait(seconds: timeout) else {
            throw CommandError(description: "\(name) \(arguments) had not ended after \(timeout) seconds")
        }
        return Outcome(status: status, output: output.contents(), errors: errors.contents())
    }

    /// Starts the program with these descriptors as its standard streams.
    func start(streams: [Int32]) throws -> ChildProcess {
        var (start, line) = (program, [name] + arguments)
        if let directory {
            // `posix_spawn` cannot change the directory. Bash can, and it can set `argv[0]`.
            (start, line) = ("bash", ["bash", "-c", #"cd -- "$1" && shift && exec -a "$@""#, "bash", directory, name, program] + arguments)
        }
        return try ChildProcess(program: start, arguments: line, environment: mergedEnvironment, streams: streams)
    }

    private var mergedEnvironment: [String] {
        let path = ["PATH": Paths.environment("PATH") ?? "/usr/bin:/bin"]
        return path.merging(environment) { $1 }.map { "\($0)=\($1)" }
    }
}

/// The outcome of a program.
struct Outcome: Equatable, CustomStringConvertible {
    /// The exit status, or 128 + n when signal n ended the program.
    var status: Int32
    /// The bytes of stdout.
    var output: [UInt8]
    /// The bytes of stderr.
    var errors: [UInt8]

    /// Stdout as text.
    var text: String { String(decoding: output, as: UTF8.self) }
    /// Stderr as text.
    var errorText: String { String(decoding: errors, as: UTF8.self) }
    /// The lines of stdout.
    var lines: [String] { text.split(separator: "\n").map(String.init) }

    var description: String { "status \(status)\nstdout:\n\(text)\nstderr:\n\(errorText)" }
}

/// A failure of the test itself, not of the tested code.
struct CommandError: Error, CustomStringConvertible {
    var description: String
}
