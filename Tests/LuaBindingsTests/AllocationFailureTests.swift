import CTestSupport
import OpEngine
import TestSupport
import Testing

@testable import LuaBindings

/// Each allocation of a Lua state in turn fails. A script can catch the error, and nothing worse happens.
@Suite(.disabled(if: has_thread_sanitizer(), "one thread only")) struct AllocationFailureTests {
    /// Repeats a step with its n-th allocation failing, n = 0, 1, 2 …, until none fails. Returns the number of failures. Quick tests leave
    /// out most numbers.
    private static var exhaust: String {
        """
        function helper(a) return a[1] end
        n = 7
        Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
        function exhaust(step)
          local failures = 0
          for number = 0, 100000, \(TestLength.stride) do
            o, q = Operation.new(function() return n end), OperationQueue.new()
            local ok, message = pcall(function()
              failAllocation(number)
              step()
            end)
            local done, hasFailed
            repeat done, hasFailed = pcall(stopFailing) until done
            if not ok and not (hasFailed and tostring(message):find 'not enough memory') then
              error(number .. ': ' .. tostring(message), 0)
            end
            if not ok then q:cancelAllOperations() end
            q.isSuspended, q.maxConcurrentOperationCount = false, -1
            q:waitUntilAllOperationsAreFinished()
            OperationQueue.main:waitUntilAllOperationsAreFinished()
            if not hasFailed then return failures end
            failures = failures + 1
          end
        end
        """
    }

    /// A runtime with one worker. Its scripts have three more functions: `failAllocation(n)` acts on the calling state; `stopFailing()`, in
    /// any state, acts on the state that called `failAllocation` last; `exhaust(step)` runs a step as described above.
    private func withFailingRuntime(_ body: (Runtime) throws -> Void) throws {
        let folder = try StoreFolder()
        try withRuntime(workers: 1, store: Runtime.Store(directory: "\(folder.path)/store")) { runtime in
            let core = try #require(try runtime.operation("return Operation.new()") as? LuaOperation).core
            let failing = Locked<UInt>(0)
            try runtime.register("failAllocation") { arguments in
                guard let state = core.stateOfCurrentThread(), case .integer(let number)? = arguments.first else { return [] }
                failing.withLock { unsafe $0 = UInt(bitPattern: fail_allocation(state.running, number)) }
                return []
            }
            try AllocationSteps.registerFunctions(in: runtime)
            try runtime.register("stopFailing") { _ in [.boolean(unsafe stop_failing(OpaquePointer(bitPattern: failing.withLock { $0 })))] }
            try runtime.run(Self.exhaust)
            try body(runtime)
            let ending = try runtime.finish()
            #expect(ending.stuckOperations.isEmpty)
        }
    }

    @Test func everyNameOfTheModuleIsInAStep() {
        let words = Set(AllocationSteps.all.values.flatMap { $0.split { !$0.isLetter }.map(String.init) })
        let names = [
            ScriptModule.Function.names, ScriptedFunctions.Function.names, ScriptedFunctions.Method.names, OperationClass.Function.names,
            OperationClass.Property.names, OperationClass.ClassProperty.names,
            OperationClass.Option.allCases.map(\.rawValue), OperationQueueClass.Function.names, OperationQueueClass.Property.names,
            OperationQueueClass.ClassProperty.names, OperationQueueClass.Option.allCases.map(\.rawValue), ErrorClass.Property.names,
            ObservationClass.Function.names, ObservationClass.Property.names, StreamClass.Function.names, TimerClass.Function.names,
            ProcessClass.Function.names,
            ProcessClass.Property.names, ProcessClass.Option.allCases.map(\.rawValue), ["BlockOperation", "InvocationOperation"],
            ChannelClass.Function.names.filter { !$0.hasPrefix("__") }, ChannelClass.Property.names,
            ChannelClass.Option.allCases.map(\.rawValue), ["freeze", "thaw", "isFrozen"],
        ]
        #expect(Set(names.joined()).subtracting(words) == [])
    }

    @Test("A script in the main state survives the failure of any allocation", arguments: AllocationSteps.all.keys.sorted())
    func inTheMainState(name: String) throws {
        try withFailingRuntime { runtime in
            let step = try #require(AllocationSteps.all[name])
            let failures = try runtime.run("local text = ...; return exhaust(assert(load(text, '=step')))", arguments: [.string(step)])
            guard case .integer(let count)? = failures.first else { Issue.record("no count"); return }
            #expect(count > 0, "nothing is allocated")
        }
    }

    @Test("A script in a worker survives the failure of any allocation", arguments: AllocationSteps.all.keys.sorted())
    func inAWorker(name: String) throws {
        try withFailingRuntime { runtime in
            let step = try #require(AllocationSteps.all[name])
            let operation = try #require(
                try runtime.run(
                    "return queue:addOperation(function(op, text) return exhaust(assert(load(text, '=step'))), helper end, ...)",
                    arguments: [.string(step)]
                ).first?.operation)
            guard case .integer(let count)? = try runtime.results(of: operation).first else { Issue.record("no count"); return }
            #expect(count > 0, "nothing is allocated")
        }
    }

    @Test func aBodyFailsForLackOfMemory() throws {
        try withFailingRuntime { runtime in
            try runtime.run(
                """
                local shared, kinds = { 1, { 2 } }, {}
                for number = 0, 100000 do
                  local added = queue:addOperation(function(op, a)
                    failAllocation(number)
                    op.stored = { a, shared }
                    local inner = opscript.OperationQueue.new():addOperation(function() return a end)
                    inner:waitUntilFinished()
                    return { inner.result }, helper { a }, tostring(op), ('x'):rep(1000), shared
                  end, { 'a' })
                  added:waitUntilFinished()
                  local hasFailed = stopFailing()
                  local e = added.error
                  if e then
                    kinds[e.kind] = (kinds[e.kind] or 0) + 1
                    assert(e.message:find 'not enough memory', e.message)
                  else
                    assert(#added.results == 5 and added.results[5][2][1] == 2)
                    if not hasFailed then break end
                  end
                end
                assert(kinds.memory > 20 and next(kinds) == 'memory' and not next(kinds, 'memory'))
                """)
        }
    }

    @Test func aPreludeFailsForLackOfMemoryAndIsTriedAgain() throws {
        try withFailingRuntime { runtime in
            try runtime.run(
                """
                local failures = 0
                for number = 0, 100000 do
                  local arm = queue:addOperation(function() failAllocation(number) end)
                  arm:waitUntilFinished()
                  opscript.prelude(function()
                    prepared = { number, ('x'):rep(100), string.format('%d', number) }
                    function string.prepared() return prepared[1] end
                  end)
                  local added = queue:addOperation(function() return prepared[1] end)
                  added:waitUntilFinished()
                  local hasFailed = stopFailing()
                  local again = queue:addOperation(function() return prepared[1], string.prepared() end)
                  again:waitUntilFinished()
                  assert(not again.error and again.results[1] == number and again.results[2] == number, tostring(again.error))
                  local e = arm.error or added.error
                  if e then
                    failures = failures + 1
                    assert(e.kind == 'memory', e.message)
                  else
                    assert(added.result == number)
                    if not hasFailed then break end
                  end
                end
                assert(failures > 20, failures)
                """)
        }
    }

    @Test func whatABodyNeedsBeforeItBeginsFailsForLackOfMemory() throws {
        try withFailingRuntime { runtime in
            try runtime.run(
                """
                local shared, failures = { 1, { 2 } }, 0
                for number = 0, 100000 do
                  package.path = './?.lua;' .. number
                  local arm = queue:addOperation(function() failAllocation(number) end)
                  local function fresh() return shared, helper end
                  local added = queue:addOperation(load("local fresh, n = ...; return function(op, a) return a, fresh, helper { n } end")(fresh, number), { 'a' })
                  added:waitUntilFinished()
                  local hasFailed = stopFailing()
                  for _, operation in ipairs { arm, added } do
                    local e = operation.error
                    if e then
                      failures = failures + 1
                      assert(e.kind == 'memory', e.message)
                    end
                  end
                  if not arm.error and not added.error and not hasFailed then break end
                end
                assert(failures > 20)
                """)
        }
    }
}
