import LuaBindings

actor Scripts {
    private let runtime: Runtime

    init() throws { runtime = try Runtime() }

    /// Suspends the caller while the script runs. The actor may do other things meanwhile.
    func run(_ source: String) async throws -> [LuaValue] { try await runtime.run(source) }

    /// Calls that belong together: no other thread is inside between them.
    func double(_ number: Int) async throws -> LuaValue {
        try await runtime.perform { runtime in
            try runtime.setGlobal("number", to: .integer(number))
            return try runtime.run("return 2 * number")[0]
        }
    }

    func close() { runtime.close() }
}

func runInActor() async throws {
    let scripts = try Scripts()
    print("in an actor:", try await scripts.run("return 6 * 7")[0].integer!, try await scripts.double(4).integer!)
    await scripts.close()
}
