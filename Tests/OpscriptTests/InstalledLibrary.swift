import Testing

/// The library for programs in C, installed in a directory for one test.
struct InstalledLibrary {
    /// The library under test: `OPSCRIPT_LIBRARY`, or the one that `scripts/build --library` has made.
    static let library = Paths.environment("OPSCRIPT_LIBRARY")
    static let header = "\(Paths.package)/Sources/COpscript/include/opscript.h"
    static let tests = "\(Paths.package)/Tests/OpscriptLibrary"

    private let directory: ScratchDirectory
    var prefix: String { directory.path + "/prefix" }

    init() throws {
        directory = try ScratchDirectory()
        var environment = ["OPSCRIPT_COMMAND": Paths.opscript]
        environment["OPSCRIPT_LIBRARY"] = Self.library
        environment["HOME"] = Paths.environment("HOME")
        var install = Command.shell(#"exec "$1" --library "$2""#, "\(Paths.package)/scripts/install", directory.path + "/prefix")
        install.environment = environment
        install.timeout = 900
        let installed = try install.run()
        try #require(installed.status == 0, "\(installed)")
    }

    /// Runs a script of the shell, whose `$1` is the installation, `$2` a directory to write to and `$3` this package.
    func run(_ script: String) throws -> Outcome {
        var command = Command.shell(script, prefix, directory.path, Paths.package)
        command.environment["PKG_CONFIG_PATH"] = prefix + "/lib/pkgconfig"
        command.environment["PATH"] = prefix + "/bin:" + (Paths.environment("PATH") ?? "")
        command.timeout = 300
        return try command.run()
    }

    /// Runs a program under memcheck, which must find nothing. Returns what the program prints.
    func check(_ program: String) throws -> Outcome {
        try run(
            """
            exec valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,indirect,possible --num-callers=40 \
            --suppressions="$3/Tests/OpscriptLibrary/valgrind.supp" \(program)
            """)
    }

    /// The names of the functions in the header.
    static func declaredFunctions() -> Set<String> {
        let text = String(decoding: Paths.read(header) ?? [], as: UTF8.self)
        // Comments contain an example.
        let code = text.replacing(#//\*(?s:.*?)\*//#, with: "")
        return Set(code.matches(of: #/\b(opscript_\w+)\(/#).map { String($0.output.1) })
    }
}
