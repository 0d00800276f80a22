import LuaBindings
import TestSupport

extension AllocationSteps {
    /// Registers the functions and the class of the host that the steps use.
    static func registerFunctions(in runtime: Runtime) throws {
        try runtime.register("echo") { $0 }
        try runtime.register("describe") { (text: String, parts: [String: [Double]]) in "\(text) has \(parts.count) parts" }
        try runtime.register("read") { (table: LuaTable) in
            try [table["list", 1], .integer(table.count), .integer(table.keys.count), table["list", 2.5], table.table(at: "list")["key"]]
        }
        var counter = LuaClass<Counter>("Counter")
        counter.function("new") { Counter() }
        counter.method("add") { (counter: Counter, number: Int) in counter.count.withLock { $0 += number } }
        counter.property("count", get: { counter in counter.count.withLock { $0 } })
        try runtime.register(counter)
    }

    private final class Counter: LuaObject {
        let count = Locked(0)
    }
}
