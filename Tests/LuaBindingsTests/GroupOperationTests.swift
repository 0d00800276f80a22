import LuaBindings
import OpEngine
import TestSupport
import Testing

/// `opscript.GroupOperation` in scripts.
@Suite struct GroupOperationTests {
    private struct Broken: Error, CustomStringConvertible { var description: String { "broken" } }

    private static let prologue = "local GroupOperation = opscript.GroupOperation\n"

    private func group(workers: Int = 2, _ source: String) throws -> [LuaValue] { try script(workers: workers, Self.prologue + source) }

    @Test func itRunsItsMembersAndHasTheirResultsInOrder() throws {
        #expect(
            try group(
                """
                local first = Operation.new(function(op, n) return n * 2, 'more' end, 21)
                local group = GroupOperation.new { name = 'all', operations = { first, function() return 'f' end, function() end } }
                assert(first.group == group and not first.isFinished and #group.operations == 3)
                queue:addOperation(group)
                group:waitUntilFinished()
                local r = group.results
                return r[1], r[2], r[3], r.n, group.result, group.isFinished, first.group, group.operations[1] == first
                """) == [42, "f", .nil, 3, 42, true, .nil, true])
    }

    @Test func membersReachTheGroupAndAddToIt() throws {
        #expect(
            try group(
                """
                local group = GroupOperation.new()
                local function work(op, n)
                    if n > 1 then op.group:addOperation(work, n - 1) end
                    return n
                end
                group:addOperation(work, 50)
                queue:addOperation(group):waitUntilFinished()
                return #group.operations, group.results[1], group.results[50]
                """) == [50, 50, 1])
    }

    @Test func aGroupThatAWorkerMakesWorks() throws {
        #expect(
            try group(
                """
                local op = queue:addOperation(function(op, queue)
                    local group = opscript.GroupOperation.new { operations = { function() return 1 end, function() return 2 end } }
                    queue:addOperation(group):waitUntilFinished()
                    return group.results[1] + group.results[2], group
                end, OperationQueue.new())
                op:waitUntilFinished()
                return op.result, op.results[2].results[2]
                """) == [3, 2])
    }

    @Test func theFirstFailureIsTheGroupsAndNamesTheMember() throws {
        #expect(
            try group(
                """
                local group = GroupOperation.new { name = 'all', maxConcurrentOperationCount = 1, operations = {
                    Operation.new { name = 'good', main = function() return 1 end },
                    Operation.new { name = 'bad', main = function() error('no such file', 0) end },
                    function() return 3 end,
                } }
                queue:addOperation(group):waitUntilFinished()
                local e = group.error
                return e.message, e.kind, e.operation == group, e.member == group.operations[2], group.results[1], group.results[2],
                    group.results[3], group.operations[2].error.message
                """) == ["'bad' in 'all' has failed: no such file", "error", true, true, 1, .nil, 3, "no such file"])
    }

    @Test func theFailureIsReportedOnceUnlessTheErrorIsRead() throws {
        for (reads, expected) in [("", ["no"]), ("local _ = group.error", [])] {
            try withRuntime { runtime throws in
                try runtime.run(
                    """
                    local group = opscript.GroupOperation.new { operations = { function() error('no', 0) end } }
                    queue:addOperation(group):waitUntilFinished()
                    \(reads)
                    """)
                #expect(try runtime.finish().unreadFailures.map(\.message) == expected)
            }
        }
    }

    @Test func aTimeoutStopsTheMembersAndIsTheOutcome() throws {
        #expect(
            try group(
                """
                local inner = GroupOperation.new { operations = { function() while true do end end } }
                local group = GroupOperation.new { name = 'slow', timeout = 0.02, operations = { function() while true do end end, inner } }
                queue:addOperation(group):waitUntilFinished()
                return group.error.kind, group.error.message, group.operations[1].error.kind, inner.isCancelled, group.isCancelled
                """) == ["timeout", "timeout: 'slow' took longer than 0.02 s", "interrupted", true, true])
    }

    @Test func interruptingAndCancellingReachTheMembers() throws {
        #expect(
            try group(
                """
                local group = GroupOperation.new { operations = { function() while true do end end } }
                queue:addOperation(group)
                while not group.operations[1].isExecuting do opscript.sleep(0.001) end
                group:interrupt()
                group:waitUntilFinished()
                local cancelled = GroupOperation.new { operations = { function() return 1 end } }
                cancelled:cancel()
                cancelled:addOperation(function() return 2 end)
                queue:addOperation(cancelled):waitUntilFinished()
                return group.error.kind, group.operations[1].isCancelled, cancelled.operations[1].isCancelled,
                    cancelled.operations[2].isCancelled, cancelled.results.n, cancelled.error
                """) == ["interrupted", true, true, true, 2, .nil])
    }

    @Test func itsPropertiesAreThoseOfItsMembersQueue() throws {
        #expect(
            try group(
                """
                local group = GroupOperation.new { isSuspended = true, maxConcurrentOperationCount = 3, operations = { function() end } }
                local before = { group.isSuspended, group.maxConcurrentOperationCount, group.progress.totalUnitCount }
                queue:addOperation(group)
                while not group.isExecuting do opscript.sleep(0.001) end
                local why = group.operations[1]:why()
                group.maxConcurrentOperationCount, group.isSuspended = 1, false
                group:waitUntilFinished()
                return before[1], before[2], before[3], why, group.maxConcurrentOperationCount, group.isSuspended,
                    group.progress.fractionCompleted
                """) == [true, 3, 1, "an unnamed Operation is in an unnamed group, which is suspended", 1, false, 1.0])
    }

    @Test func whyNamesTheGroupThatHasNotStarted() throws {
        #expect(
            try group(
                """
                local never = Operation.new { name = 'never' }
                local group = GroupOperation.new { name = 'g', dependencies = { never }, operations = { Operation.new { name = 'm' } } }
                queue:addOperation(group)
                local member = group.operations[1]
                local text, fields = member:why()
                local ok, message = pcall(member.waitUntilFinished, member)
                group:cancel()
                return text, fields.group == group, message
                """) == [
                    "'m' is in the group 'g', which has not started", true,
                    "this wait can never end: 'm' is in the group 'g', which has not started; 'g' depends on 'never', which was never added to a queue",
                ])
    }

    @Test func aClassOfGroupsAddsItsMembersInInit() throws {
        #expect(
            try group(
                """
                local Build = GroupOperation:subclass('Build')
                function Build:init(...)
                    for _, file in ipairs { ... } do self:addOperation(function(op, file) return file .. '.o' end, file) end
                end
                function Build:size() return #self.operations end
                function Build:cancel() self.told = 1; Operation.cancel(self) end
                local build = Build.new('a', 'b')
                queue:addOperation(build):waitUntilFinished()
                local Special = Build:subclass('Special')
                local special = Special.new('c')
                local outer = GroupOperation.new { operations = { special } }
                outer:cancel()
                return table.concat(build.results, ' '), build:size(), tostring(build), build:isKindOf(GroupOperation),
                    build:isKindOf(Operation), special:isKindOf(Build), special.told, special.operations[1].isCancelled
                """) == ["a.o b.o", 2, "Build (finished)", true, true, true, 1, true])
    }

    @Test func whatIsWrongIsSaid() throws {
        let cases: [(String, String)] = [
            ("GroupOperation.new(1)", "table expected"),
            ("GroupOperation.new { operations = 1 }", "operations must be an array, got a number"),
            ("GroupOperation.new { operations = { 1 } }", "operations[1] must be an operation or a function, got a number"),
            ("GroupOperation.new { main = print }", "unknown option 'main'"),
            ("GroupOperation.new { retry = 3 }", "unknown option 'retry'"),
            ("GroupOperation.new().retry = 3", "a group, and cannot be tried again"),
            ("GroupOperation.new().progress = 3", "'progress' of a group cannot be assigned"),
            ("GroupOperation.new().operations = {}", "use addOperation or addOperations"),
            ("GroupOperation.new().group = 1", "'group' of an operation cannot be assigned"),
            ("GroupOperation.new { maxConcurrentOperationCount = -2 }", "cannot be -2"),
            ("Operation.new():addOperation(function() end)", "is not a GroupOperation: only such a one has members"),
            ("local g = GroupOperation.new() g:addOperation(g)", "a group cannot contain itself"),
            (
                "local g = GroupOperation.new() queue:addOperation(g):waitUntilFinished() g:addOperation(function() end)",
                "the group has finished"
            ),
            ("local g = GroupOperation.new() queue:addOperation(g) g:finish()", "it finishes when its members have finished"),
            ("local C = GroupOperation:subclass('C') function C:main() end", "nothing runs in a group but its members"),
            ("opscript.BlockOperation:subclass('C')", "derive from Operation or GroupOperation"),
            ("local op = Operation.new() GroupOperation.new { operations = { op, op } }", "already in a queue"),
        ]
        for (source, message) in cases {
            let text = try group("local ok, e = pcall(function() \(source) end) return e")[0].text
            #expect(text?.hasSubstring(message) == true, "\(source): \(text ?? "no error")")
        }
    }

    @Test func anOperationThatIsNoGroupMayStoreUnderTheNamesOfItsProperties() throws {
        #expect(try group("local op = Operation.new() op.operations, op.progress = 3, 0.5 return op.operations, op.progress") == [3, 0.5])
    }

    @Test func aMemberCannotWaitForItsGroup() throws {
        let text = try group(
            """
            local group = GroupOperation.new { operations = { function(op) return select(2, pcall(op.group.waitUntilFinished, op.group)) end } }
            queue:addOperation(group):waitUntilFinished()
            return group.result
            """)[0].text
        #expect(text?.hasSubstring("waits for itself") == true)
    }

    @Test func aHostAddsMembersToAGroupOfAScript() throws {
        try withRuntime { runtime throws in
            let group = try runtime.operation("group = opscript.GroupOperation.new { name = 'g' } return group")
            let member = BlockOperation { throw Broken() }
            member.name = "host's"
            let hostGroup = GroupOperation(operations: [member], name: "h", engine: runtime.engine)
            try runtime.run("group:addOperation((...)) queue:addOperation(group)", arguments: [.operation(hostGroup)])
            group.waitUntilFinished()
            #expect(
                try runtime.run("return group.error.message, group.operations[1].operations[1].isFinished, tostring(group.operations[1])")
                    == ["host's in h has failed: broken", true, "GroupOperation 'h' (failed)"])
        }
    }

    @Test func bodiesInProcessesMakeGroupsAndAddToTheirOwn() throws {
        try withProcesses(workers: 2) { runtime throws in
            #expect(
                try runtime.run(
                    """
                    local op = queue:addOperation(function(op, queue)
                        local group = opscript.GroupOperation.new { operations = { function(op)
                            op.group:addOperation(function(op, x) return x end, 5)
                            return 1
                        end } }
                        queue:addOperation(group):waitUntilFinished()
                        return group.results[1] + group.results[2]
                    end, OperationQueue.new())
                    op:waitUntilFinished()
                    return op.error and op.error.message, op.result
                    """) == [.nil, 6])
        }
    }

    @Test func groupsAreObservedAndComplete() throws {
        #expect(
            try group(
                """
                local seen = {}
                local group = GroupOperation.new { operations = { function() end }, completionBlock = function(op) seen[#seen + 1] = tostring(op) end }
                local observation = group:observe('isFinished', function(op, change) seen[#seen + 1] = 'finished' end)
                queue:addOperation(group)
                queue:waitUntilAllOperationsAreFinished()
                return #seen, group.completionBlock
                """) == [2, .nil])
    }

    @Test func whatIsNeverRunIsReleased() throws {
        try withRuntime { runtime throws in
            weak var dropped: Operation?
            do {
                let group = try runtime.operation(
                    "local g = opscript.GroupOperation.new { operations = { function(op) return op.group end } } return g")
                dropped = group
            }
            try runtime.run("collectgarbage() collectgarbage()")
            #expect(dropped == nil)
        }
    }
}

extension String {
    fileprivate func hasSubstring(_ other: String) -> Bool {
        indices.contains { self[$0...].hasPrefix(other) }
    }

    @Test func groupsNestedDeeplyAreReleasedWithoutRecursion() throws {
        try withRuntime(workers: 1) { runtime in
            try runtime.run(
                """
                local g = opscript.GroupOperation.new()
                for i = 1, \(TestLength.size(300_000)) do g = opscript.GroupOperation.new { operations = { g } } end
                g = nil
                collectgarbage()
                collectgarbage()
                """)
        }
    }
}
