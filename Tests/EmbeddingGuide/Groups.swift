import LuaBindings

func endUsers() async throws {
    let runtime = try Runtime()
    let alice = Runtime.Group(of: runtime), bob = Runtime.Group(of: runtime)
    for user in [alice, bob] {
        try await runtime.perform(in: user) { runtime in try runtime.run("opscript.every(60, print)") }
    }
    let run = Runtime.Group(in: alice)
    let task = Task { try await runtime.perform(in: run) { try $0.run("while true do end") } }
    run.cancel()  // this run of Alice's
    alice.cancel()  // all that Alice has started
    bob.cancel()
    do { _ = try await task.value } catch is CancellationError { print("Alice's run was stopped") }
    let left = runtime.close(deadline: .seconds(10))
    print("\(left.count) operations did not end")
}
