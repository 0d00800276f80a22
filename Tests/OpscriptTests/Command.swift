import Glibc

/// A program to run to its end, with what it is given; `run()` gives what it did.
///
/// The environment is empty but for `PATH` and what `environment` says, so that no setting of the developer's reaches it.
struct Command {
    /// A path, or a name that is looked up in `PATH`.
    var program: String
    /// What the program finds as its own name, `argv[0]`.
    var name: String
    var arguments: [String] = []
    var input = ""
    var environment: [String: String] = [:]
    /// The directory to run it in; nil means ours.
    var directory: String?
    /// Seconds after which it is killed; that is an error of the test.
    var timeout = 60

    /// The command under test: `OPSCRIPT_COMMAND`, or the optimised build in this package.
    static func opscript(_ arguments: String...) -> Command {
        Command(program: Paths.opscript, name: "opscript", arguments: arguments)
    }

    /// The stock interpreter, to compare with.
    static func lua(_ arguments: String...) -> Command {
        Command(program: "lua5.4", name: "opscript", arguments: arguments)
    }

    /// A shell, for pipelines; the command under test is `$OPSCRIPT` in it.
    static func shell(_ script: String, _ arguments: String...) -> Command {
        Command(
            program: "/bin/sh", name: "sh", arguments: ["-c", script, "sh"] + arguments, environment: ["OPSCRIPT": Paths.opscript])
    }

    /// The command with some input.
    func input(_ text: String) -> Command {
        var copy = self
        copy.input = text
        return copy
    }

    /// The command in a directory.
    func directory(_ path: String) -> Command {
        var copy = self
        copy.directory = path
        return copy
    }

    /// The command with more variables in its environment.
    func environment(_ variables: [String: String]) -> Command {
        var copy = self
        copy.environment.merge(variables) { $1 }
        return copy
    }

    /// Runs it to its end. Blocks the calling thread.
    func run() throws -> Outcome {
        // Files take any amount of output without a reader.
        let input = try ScratchFile(holding: Array(input.utf8))
        let output = try ScratchFile()
        let errors = try ScratchFile()
        var (start, line) = (program, [name] + arguments)
        if let directory {
            // `posix_spawn` cannot change the directory; bash can, and set `argv[0]`.
            (start, line) = ("bash", ["bash", "-c", #"cd -- "$1" && shift && exec -a "$@""#, "bash", directory, name, program] + arguments)
        }
        let child = try ChildProcess(
            program: start, arguments: line, environment: mergedEnvironment,
            streams: [input.descriptor, output.descriptor, errors.descriptor])
        guard let status = try child.wait(seconds: timeout) else {
            throw CommandError(description: "\(name) \(arguments) had not ended after \(timeout) seconds")
        }
        return Outcome(status: status, output: output.contents(), errors: errors.contents())
    }

    private var mergedEnvironment: [String] {
        let path = ["PATH": Paths.environment("PATH") ?? "/usr/bin:/bin"]
        return path.merging(environment) { $1 }.map { "\($0)=\($1)" }
    }
}

/// What a program did.
struct Outcome: Equatable, CustomStringConvertible {
    /// The exit status; 128 + n when signal n ended it.
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

/// Something went wrong that is not what is being tested.
struct CommandError: Error, CustomStringConvertible {
    var description: String
}
