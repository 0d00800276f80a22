import CTestSupport
import Glibc
import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Bodies that block in Lua's library or in a module. The engine is not told about such calls.
@Suite struct BlockedBodyTests {
    /// Two operations run `body`, which blocks. It has the variables `op`, `i` (its number) and `folder`. Another operation runs
    /// `release`, which unblocks them. It has the variables `blocked` (the two operations) and `folder`.
    private func expectOthersToRun(workers: Int = 2, blocking body: String, releasing release: String) throws {
        var template = Array("/tmp/opscript-XXXXXX".utf8CString)
        // Safety: the name is a local variable that outlives the call.
        try #require(unsafe mkdtemp(&template) != nil)
        let folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let fifos = [1, 2].map { "\(folder)/\($0)" }
        // Safety: the paths are valid strings.
        for path in fifos { try #require(unsafe mkfifo(path, 0o600) == 0) }
        defer {
            for path in fifos { unsafe unlink(path) }
            unsafe rmdir(folder)
        }
        try withRuntime(workers: workers) { runtime in
            try runtime.run(
                """
                local folder = ...
                local blocked = {}
                for i = 1, 2 do blocked[i] = queue:addOperation(function(op, i, folder) \(body) end, i, folder) end
                for i = 1, 2 do while not blocked[i].hasBegun do opscript.sleep(0.001) end end
                local other = queue:addOperation(function(_, blocked, folder) \(release) end, blocked, folder)
                assert(other:waitUntilFinished(30), 'it does not run')
                assert(not other.error, other.error)
                for i = 1, 2 do
                  assert(blocked[i]:waitUntilFinished(30))
                  assert(not blocked[i].error, blocked[i].error)
                end
                """, arguments: [.string(folder)])
            #expect(try runtime.finish().stuckOperations.isEmpty)
        }
    }

    @Test func readingFromACommand() throws {
        try expectOthersToRun(
            blocking: """
                local command = io.popen('cat ' .. folder .. '/' .. i)
                op.hasBegun = true
                assert(command:read('a') == 'x' .. i and command:close())
                """,
            releasing: """
                for i = 1, 2 do
                  local file = assert(io.open(folder .. '/' .. i, 'w'))
                  file:write('x', i)
                  file:close()
                end
                """)
    }

    @Test func openingANamedPipe() throws {
        try expectOthersToRun(
            blocking: "op.hasBegun = true; assert(io.open(folder .. '/' .. i)):close()",
            releasing: "for i = 1, 2 do assert(io.open(folder .. '/' .. i, 'w')):close() end")
    }

    @Test func onOneProcessor() async {
        await #expect(processExitsWith: .success) {
            #expect(use_one_processor() && Engine.processorCount == 1)
            try BlockedBodyTests().expectOthersToRun(
                workers: Engine.processorCount, blocking: "op.hasBegun = true; assert(io.open(folder .. '/' .. i)):close()",
                releasing: "for i = 1, 2 do assert(io.open(folder .. '/' .. i, 'w')):close() end")
        }
    }

    @Test func executingACommand() throws {
        try expectOthersToRun(
            blocking: "op.hasBegun = true; assert(os.execute('read x < ' .. folder .. '/' .. i))",
            releasing: "for i = 1, 2 do assert(os.execute('echo x > ' .. folder .. '/' .. i)) end")
    }

    @Test func acceptingAConnection() throws {
        try expectOthersToRun(
            blocking: """
                local listener = assert(require 'socket'.bind('127.0.0.1', 0))
                op.port = select(2, listener:getsockname())
                op.hasBegun = true
                local client = assert(listener:accept())
                assert(client:receive() == 'hello ' .. i)
                client:close()
                listener:close()
                """,
            releasing: """
                for i = 1, 2 do
                  local client = assert(require 'socket'.connect('127.0.0.1', tonumber(blocked[i].port)))
                  assert(client:send('hello ' .. i .. '\\n'))
                  client:close()
                end
                """)
    }

    @Test func bodiesThatComputeAreNotReplaced() throws {
        try withRuntime(workers: 2) { runtime in
            try runtime.run(
                """
                local computing = OperationQueue.new { name = 'computing', maxConcurrentOperationCount = 100 }
                for _ = 1, 100 do
                  computing:addOperation(function() local n = 0 for i = 1, 200000 do n = n + i % 7 end return n end)
                end
                computing:waitUntilAllOperationsAreFinished()
                """)
            // A body looks blocked while it waits for the allocator's lock and the holder, a thread of another test, waits for a processor.
            #expect(runtime.engine.threadCount <= 4)
        }
    }
}
