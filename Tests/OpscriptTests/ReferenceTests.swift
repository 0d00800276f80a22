import Testing

/// These tests are for the optimised command, in which the compiler releases an object after its last use.
@Suite("Objects that a script uses stay alive")
struct ReferenceTests {
    @Test("An operation that was sent by reference is sent whole, even if collections end meanwhile")
    func sealedOperation() throws {
        let script = """
            local queue, names = opscript.OperationQueue.new(), {}
            for i = 1, 60 do
              _G["g" .. i] = { i, { i } }
              names[i] = "g" .. i
            end
            -- Sending these functions makes tables.
            local make = load("local own = ... return function() return own, " .. table.concat(names, ", ") .. " end")
            local carrier = opscript.Operation.new(function() end)
            for _ = 1, 50 do
              local operation = opscript.BlockOperation.new(function() return 1 end)
              for block = 1, 8 do operation:addExecutionBlock(make({ block })) end
              carrier.stored = operation
              carrier.stored = nil
              queue:addOperation(operation)
              operation:waitUntilFinished()
              assert(not operation.error, operation.error)
            end
            """
        let outcome = try Command.opscript("-e", script).run()
        #expect(outcome.status == 0, "\(outcome)")
    }

    @Test("A queue that a script waits for stays alive while completion blocks run, whatever they do to the stack")
    func queueOfAWait() throws {
        let script = """
            local OperationQueue = opscript.OperationQueue
            local operation = opscript.Operation.new(function() local start = os.clock() while os.clock() - start < 0.05 do end end)
            operation.completionBlock = function()
              assert(debug.setlocal(2, 1, nil) == nil)
              collectgarbage()
              collectgarbage()
              for i = 1, 2000 do OperationQueue.new("another " .. i) end
              collectgarbage()
            end
            local function make()
              local queue = OperationQueue.new "the queue"
              queue:addOperation(operation)
              operation = nil
              return queue
            end
            local function wait() return (make():waitUntilAllOperationsAreFinished()) end
            assert(wait())
            """
        let outcome = try Command.opscript("-e", script).environment(["MALLOC_CONF": "junk:true"]).run()
        #expect(outcome.status == 0, "\(outcome)")
    }
}
