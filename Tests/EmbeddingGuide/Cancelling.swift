import LuaBindings

func cancelScript() async throws {
    let runtime = try Runtime()
    let task = Task { try await runtime.run("while true do end") }
    task.cancel()
    do { _ = try await task.value } catch is CancellationError { print("the script was stopped") }
    runtime.close()
}
