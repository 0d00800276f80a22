import Testing

/// The interpreter `lua5.4` with the module `opscript`.
enum StockLua {
    /// The path of the module: `OPSCRIPT_MODULE`, or a module that is linked from this build's objects.
    static let module = Result {
        if let path = Paths.environment("OPSCRIPT_MODULE") { return path }
        let path = Paths.products + "/opscript.so"
        var link = Command(
            program: Paths.package + "/scripts/build-module", name: "build-module",
            arguments: ["--link", Paths.products + "/libOpscriptModule.a", path])
        link.timeout = 300
        let linked = try link.run()
        guard linked.status == 0 else { throw CommandError(description: "the module cannot be linked: \(linked)") }
        return path
    }

    /// `lua5.4` with these arguments, which finds the module.
    static func command(_ arguments: String...) throws -> Command {
        let directory = try module.get().split(separator: "/").dropLast().joined(separator: "/")
        return Command(program: "lua5.4", name: "lua5.4", arguments: arguments)
            .environment(["LUA_CPATH": "/\(directory)/?.so;;"])
    }

    /// Runs a script that finds the module.
    static func run(_ script: String) throws -> Outcome { try command("-").input(script).run() }
}
