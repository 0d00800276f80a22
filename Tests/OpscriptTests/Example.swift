import Testing

/// A program of `examples` that is a package of its own.
struct Example {
    let program: String
    private let name: String

    /// Builds the program.
    ///
    /// - Parameter folder: the folder of `examples` that has the package; an empty text for `examples` itself.
    init(_ name: String, in folder: String = "") throws {
        // All examples are built in one folder, so that the libraries are built once.
        let products = Paths.package + "/.build/examples"
        // SwiftPM does not notice new files in a package that lies beside this one. Without its saved plan it looks again. The lock protects
        // the plan of another test that builds there now.
        var build = Command.shell(
            #"mkdir -p "$2" && exec 9> "$2/lock" && flock 9 && rm -f -- "$2"/*.yaml && "#
                + #"swift build --package-path "$1" --scratch-path "$2" --product "$3""#,
            Paths.package + "/examples/" + folder + "/" + name, products, name)
        build.environment["HOME"] = Paths.environment("HOME")
        build.timeout = 900
        let built = try build.run()
        try #require(built.status == 0, "\(built)")
        program = products + "/debug/" + name
        self.name = name
    }

    func run(_ arguments: String...) throws -> Outcome {
        try Command(program: program, name: name, arguments: arguments).run()
    }
}
