import LuaBindings
import OpEngine
import Testing

/// A host adds operations that a script has made.
@Suite struct HostAddingTests {
    @Test(arguments: [
        "local text = 'sent' return Operation.new(function(op, x) return text .. x end, '!')",
        "local o = opscript.BlockOperation.new(function() return 'sent!' end) o:addExecutionBlock(function() return 2 end) return o",
        "return opscript.InvocationOperation.new('sent', 'gsub', '$', '!')",
        "local C = Operation:subclass 'C' function C:main() return self:text() end function C:text() return 'sent!' end return C.new()",
        "local o = Operation.new { asynchronous = true, main = function(op) op:finish 'sent!' end } return o",
    ])
    func theFunctionHasComeAlong(_ source: String) throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation(source)
            let other = try runtime.operation(source)
            // The script no longer refers to the operation.
            try runtime.run("collectgarbage() collectgarbage()")
            let queue = OperationQueue(engine: runtime.engine)
            queue.addOperation(operation)
            #expect(try runtime.results(of: operation).first == "sent!")
            runtime.engine.mainQueue.addOperation(other)
            #expect(try runtime.results(of: other).first == "sent!")
        }
    }

    @Test func onTheMainQueueItRunsAsItIs() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation("count = 0 local n = 0 return Operation.new(function() n = n + 1 count = count + n end)")
            try runtime.run("collectgarbage() collectgarbage()")
            runtime.engine.mainQueue.addOperation(operation)
            _ = try runtime.results(of: operation)
            #expect(try runtime.global("count") == 1)
        }
    }

    @Test func itsCompletionBlockRunsInTheScript() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation(
                "local o = Operation.new(function() return 1 end) o.completionBlock = function(op) done = op.result end return o")
            try runtime.run("collectgarbage() collectgarbage()")
            OperationQueue(engine: runtime.engine).addOperation(operation)
            _ = try runtime.finish()
            #expect(try runtime.global("done") == 1)
        }
    }

    @Test func functionsOfTheHostMayAddThem() throws {
        try withRuntime { runtime throws in
            let queue = OperationQueue(engine: runtime.engine)
            try runtime.register("add") { arguments in
                for argument in arguments { if let operation = argument.operation { try queue.tryAddOperation(operation) } }
                return []
            }
            let sum = try runtime.run(
                """
                local sum = 0
                local made = {}
                for i = 1, 10 do made[i] = Operation.new(function() return i end) end
                add(table.unpack(made))
                local inner = queue:addOperation(function()
                    local o = Operation.new(function() return 100 end)
                    add(o)
                    o:waitUntilFinished()
                    return o.result
                end)
                for _, o in ipairs(made) do o:waitUntilFinished() sum = sum + o.result end
                inner:waitUntilFinished()
                return sum + inner.result
                """)
            #expect(sum == [155])
        }
    }

    @Test func whatCannotBeSentIsTheOperationsError() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation("local t = coroutine.create(print) return Operation.new(function() return t end)")
            OperationQueue(engine: runtime.engine).addOperation(operation)
            let failure = #expect(throws: OperationFailure.self) { try runtime.results(of: operation) }
            #expect(failure?.message.contains("cannot send upvalue 't' (a coroutine)") == true)
        }
    }
}
