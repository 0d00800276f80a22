import LuaBindings
import Testing

/// Properties that a script invents for an operation.
@Suite struct StorageTests {
    @Test func valuesAreCopiedInAndOut() throws {
        try script(
            """
            local o, t = Operation.new(function() end), { 1, { 2 } }
            o.payload = t
            t[1] = 'changed'
            assert(o.payload[1] == 1 and o.payload[2][1] == 2 and o.payload ~= o.payload)
            o.payload[1] = 'lost'
            assert(o.payload[1] == 1)
            o.payload = nil
            assert(o.payload == nil)
            o.flag = false
            assert(o.flag == false)
            """)
    }

    @Test func workersSeeThemAndSetThem() throws {
        try script(
            """
            local o = Operation.new(function(op) op.answer = op.question .. '!'; op.double = function(x) return 2 * x end end)
            o.question = 'why'
            queue:addOperation(o)
            o:waitUntilFinished()
            assert(o.answer == 'why!' and o.double(4) == 8)
            """)
    }

    @Test func manyWorkersStoreAtOnce() throws {
        try script(
            workers: 4,
            """
            local shared = Operation.new(function() end)
            for i = 1, 8 do
                queue:addOperation(function()
                    for j = 1, 500 do shared['key' .. i] = { i, j }; assert(shared['key' .. i][2] == j) end
                end)
            end
            queue:waitUntilAllOperationsAreFinished()
            for i = 1, 8 do assert(shared['key' .. i][2] == 500) end
            """)
    }

    @Test(arguments: [
        ("o.isReadi = true", "an operation has no property 'isReadi' (did you mean 'isReady'?)"),
        ("o.nmae = 'x'", "an operation has no property 'nmae' (did you mean 'name'?)"),
        ("o.addDependancy = 1", "an operation has no property 'addDependancy' (did you mean 'addDependency'?)"),
        ("o.start = 1", "'start' is a method of operations and cannot be assigned"),
        ("o.isFinished = true", "'isFinished' of an operation cannot be assigned"),
        ("o.result = 1", "'result' of an operation cannot be assigned"),
        ("o[1] = 1", "an operation's fields have names, got a number as a key"),
        ("o.queuePriority = 'hihg'", "queuePriority must be one of \"veryLow\", \"low\", \"normal\", \"high\", \"veryHigh\", got 'hihg'"),
        ("o.name = 5", "name: string expected, got number"),
        ("o.completionBlock = 5", "completionBlock: function or nil expected, got number"),
        ("o.file = io.tmpfile()", "cannot send the value (a userdata); open it inside the body"),
        ("Operation.new { mian = print }", "bad argument #1 to 'new' (unknown option 'mian' (did you mean 'main'?))"),
        ("Operation.new(5)", "bad argument #1 to 'new' (function or table expected, got number)"),
        ("queue.isSuspendet = true", "a queue has no property 'isSuspendet' (did you mean 'isSuspended'?)"),
        ("OperationQueue.new { maxConcurrentOperationCount = 'x' }", "maxConcurrentOperationCount: integer expected, got string"),
    ])
    func mistakesAreErrors(_ source: String, _ message: String) throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run("local o = Operation.new(print); \(source)") }
            #expect(error?.message == "script:1: " + message)
        }
    }
}
