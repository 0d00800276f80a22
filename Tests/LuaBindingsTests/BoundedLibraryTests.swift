import LuaBindings
import OpEngine
import Testing

/// Loops in C that a script can start, and finalizers, are stopped like Lua code.
@Suite struct BoundedLibraryTests {
    @Test(arguments: [
        #"("a"):rep(30000):find(".-.-.-.-b")"#,
        #"("a"):rep(30000):match(".-.-.-.-b")"#,
        #"("a"):rep(30000):gsub((".*"):rep(30) .. "b", "")"#,
        #"for _ in ("a"):rep(30000):gmatch(".-.-.-.-b") do end"#,
        #"while true do pcall(string.find, ("a"):rep(30000), ".-.-.-.-b") end"#,
        "setmetatable({}, { __gc = function() while true do end end }) collectgarbage() while true do end",
        "for _ = 1, 3 do setmetatable({}, { __gc = function() while true do end end }) end collectgarbage()",
        "debug.sethook(function() while true do end end, '', 1) local x = 1",
        "table.move({}, 1, 1 << 60, 2)",
        "table.insert(setmetatable({}, { __len = function() return 1 << 60 end }), 1, 1)",
        "table.remove(setmetatable({}, { __len = function() return 1 << 60 end }), 1)",
        "table.concat(setmetatable({}, { __index = table.concat }), '', 1, 1 << 60)",
        "table.sort(setmetatable({}, { __len = function() return (1 << 31) - 2 end }), rawequal)",
        "load('local a; x = a' .. (' and a'):rep(1000000))",
        "local f = function() return 1.79e308, 1.79e308 end while true do ('%.99f'):rep(2):format(f()) end",
    ])
    func aLoopInCIsStopped(_ body: String) throws {
        #expect(
            try script(
                """
                local op = Operation.new { timeout = 0.02, main = function() \(body) end }
                queue:addOperation(op)
                op:waitUntilFinished()
                return op.error.kind, queue:addOperation(function() return 'goes on' end):waitUntilFinished()
                """) == ["timeout", true])
    }

    @Test func anEmptyStringIsRepeatedAtOnce() throws {
        #expect(
            try script("return #(''):rep(1 << 62), ('ab'):rep(3, '-'), ('x'):rep(0), #('abc'):rep(1000000, 'de')") == [
                0, "ab-ab-ab", "", 4999998,
            ])
    }

    @Test(arguments: [
        ("(('a'):rep(300)):find(('.?'):rep(300))", "pattern too complex"),
        ("('x'):find('(')", "unfinished capture"),
        ("('x'):find('[a')", "malformed pattern (missing ']')"),
        ("('x'):gsub('x', '%2')", "invalid capture index %2"),
        ("('x'):gsub('x', '%a')", "invalid use of '%' in replacement string"),
        ("string.rep('xx', 1 << 40)", "resulting string too large"),
        ("string.format('%d')", "bad argument #2 to 'format' (no value)"),
        ("string.format('%y', 1)", "invalid conversion '%y' to 'format'"),
        ("table.concat({ 1, {} })", "invalid value (table) at index 2 in table for 'concat'"),
        ("table.insert({}, 3, 1)", "bad argument #2 to 'insert' (position out of bounds)"),
        ("table.unpack({}, 1, 1 << 40)", "too many results to unpack"),
        ("table.sort({ 3, 2, 1, 4 }, function() return true end)", "invalid order function for sorting"),
    ])
    func errorsAreThoseOfLua(_ expression: String, _ message: String) throws {
        let text = try script("local ok, message = pcall(function() return \(expression) end) return message")[0].text
        #expect(try #require(text).hasSuffix(message))
    }
}
