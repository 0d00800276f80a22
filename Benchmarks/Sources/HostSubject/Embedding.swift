import LuaBindings
import Measuring

// Measures a host's costs: calls of its functions, runtimes, and values as Swift types.

func registerFunctions(in runtime: Runtime) throws {
    try runtime.registerDirect("addDirectly") { call in try call.push(call.integer(at: 1) + call.integer(at: 2)) }
    try runtime.register("add") { (a: Int, b: Int) in a + b }
    try runtime.register("addUntyped") { arguments in [.integer((arguments[0].integer ?? 0) + (arguments[1].integer ?? 0))] }
}

/// Nanoseconds of a call from a Lua loop.
func callFromLua(_ count: Int, _ function: String, in runtime: Runtime) -> Double {
    let script = "local count, sum, add = ..., 0, \(function); for i = 1, count do sum = add(sum, i) end return sum"
    return nanoseconds {
        do {
            let sum: Int = try runtime.evaluate(script, arguments: [.integer(count)])
            precondition(sum == count * (count + 1) / 2)
        } catch { fatalError("\(error)") }
    } / Double(count)
}

/// Microseconds of making and closing a runtime whose script starts no operation.
func makeAndClose(_ count: Int) -> Double {
    nanoseconds {
        do { for _ in 0..<count { try Runtime().close() } } catch { fatalError("\(error)") }
    } / Double(count) / 1000
}

private struct Row: Decodable {
    let id: Int
    let name: String
    let score: Double
    let isValid: Bool
    let tags: [String]
}

/// Milliseconds of decoding 10,000 rows that are in a global.
func decodeRows(_ count: Int, in runtime: Runtime) -> Double {
    do {
        try runtime.run(
            """
            rows = {}
            for i = 1, 10000 do
              rows[i] = { id = i, name = 'row ' .. i, score = i / 3, isValid = i % 2 == 0, tags = { 'a', 'b' .. i } }
            end
            """)
        return try nanoseconds {
            for _ in 0..<count {
                let rows: [Row] = try runtime.evaluate("rows")
                precondition(rows.count == 10_000 && rows[9999].tags[1] == "b10000")
            }
        } / Double(count) / 1e6
    } catch { fatalError("\(error)") }
}
