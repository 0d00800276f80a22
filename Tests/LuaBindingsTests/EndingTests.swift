import LuaBindings
import OpEngine
import Testing

/// The report that `finish` returns.
@Suite struct EndingTests {
    @Test func everythingThatWasLeftHasRun() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                finished = 0
                for i = 1, 100 do
                    local o = Operation.new(function() return i end)
                    o.completionBlock = function() finished = finished + 1 end
                    queue:addOperation(o)
                end
                OperationQueue.main:addOperation(function() onMain = true end)
                """)
            let ending = try runtime.finish()
            #expect(ending.unreadFailures.isEmpty && ending.stuckOperations.isEmpty && !ending.wasInterrupted)
            #expect(try runtime.run("return finished, onMain") == [100, true])
            #expect(runtime.unfinishedOperationCount == 0)
        }
    }

    @Test func failuresThatNobodyReadAreReportedOnce() throws {
        try withRuntime(workers: 1) { runtime throws in
            try runtime.run(
                """
                for i = 1, 3 do
                    local o = Operation.new(function() error('failure ' .. i, 0) end)
                    o.name = 'o' .. i
                    queue:addOperation(o)
                    if i == 2 then o:waitUntilFinished(); assert(o.error.message == 'failure 2') end
                end
                """)
            let ending = try runtime.finish()
            #expect(ending.unreadFailures.map(\.message) == ["failure 1", "failure 3"])
            #expect(ending.unreadFailures.map(\.operationName) == ["o1", "o3"])
            #expect(try runtime.finish().unreadFailures.isEmpty)
        }
    }

    @Test func readingAnErrorInAWorkerCounts() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                local o = queue:addOperation(function() error 'x' end)
                local reader = Operation.new(function() return o.error.message end)
                reader:addDependency(o)
                queue:addOperation(reader)
                """)
            #expect(try runtime.finish().unreadFailures.isEmpty)
        }
    }

    @Test func showingAnOperationDoesNotCountAsReadingItsError() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                "local o = queue:addOperation(function() error 'x' end); o:waitUntilFinished(); return tostring(o), o.name, o.isFinished")
            #expect(try runtime.finish().unreadFailures.count == 1)
        }
    }

    @Test func stuckOperationsAreNamedWithTheReason() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                local function named(name) local o = Operation.new(function() end); o.name = name; return o end
                local never = named 'never'
                local waiting, held = named 'waiting', named 'held'
                waiting:addDependency(never)
                held.isReady = false
                queue:addOperations { waiting, held }
                local suspended = OperationQueue.new { name = 'quiet', isSuspended = true }
                suspended:addOperation(named 'suspended')
                """)
            let stuck = try runtime.finish().stuckOperations
            #expect(
                Set(stuck) == [
                    "'waiting' can never run: it depends on 'never', which was never added to a queue",
                    "'held' can never run: it has isReady = false",
                    "'suspended' can never run: it is in queue 'quiet', which is suspended",
                ])
        }
    }
}
