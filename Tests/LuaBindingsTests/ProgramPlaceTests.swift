import CTestSupport
import Glibc
import OpEngine
import OpPlatform
import TestLimits
import TestSupport
import Testing

@testable import LuaBindings

/// Programs have the places of the operations that wait for them.
@Suite(.endsWithin(seconds: 60)) struct ProgramPlaceTests {
    /// Makes a folder, and `shell`, which notes in it how many of its commands run at once.
    private static let prelude = """
        local folder = opscript.run 'mktemp -d'
        local function shell(options)
          options[1] = 'touch run.$$; ls run.* | wc -l >> seen; ' .. options[1] .. '; rm run.$$'
          options.cwd = folder
          return opscript.sh(options)
        end
        local function most()
          local most = 0
          for line in io.lines(folder .. '/seen') do most = math.max(most, tonumber(line)) end
          opscript.run { 'rm', '-r', folder }
          return most
        end

        """

    @Test("With two workers, at most two programs of operations run at once, in whatever way bodies wait for them")
    func atOnce() throws {
        let values = try script(
            workers: 2,
            Self.prelude + """
                for i = 1, 16 do
                  queue:addOperation(function()
                    if i % 4 == 0 then opscript.sleep(0.001) end
                    local program = shell { 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done' }
                    if i % 3 == 0 then while not program:wait(0.001) do end else program:wait() end
                    if i % 5 == 0 then os.execute 'true' end
                    shell { 'true' }:wait()
                  end)
                end
                queue:waitUntilAllOperationsAreFinished()
                return most()
                """)
        // ThreadSanitizer makes threads sleep for its own locks. The monitor replaces such threads, if they get no processor for long, between two waits.
        #expect(values == [1] || values == [2] || has_thread_sanitizer(), "\(values)")
    }

    @Test("Programs of bodies in worker processes have the places of their operations")
    func isolated() throws {
        try withProcesses(workers: 2) { runtime in
            let values = try runtime.run(
                Self.prelude + """
                    for i = 1, 8 do
                      queue:addOperation(function() shell { 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done' }:wait() end)
                    end
                    queue:waitUntilAllOperationsAreFinished()
                    return most()
                    """)
            #expect(values == [1] || values == [2] || has_thread_sanitizer())
        }
    }

    @Test("Programs of the main state, and those without slots, are not bounded")
    func unbounded() throws {
        let values = try script(
            workers: 1,
            Self.prelude + """
                local together = 'until [ -e all ] || [ $(ls run.* | wc -l) -ge 3 ]; do sleep 0.01; done; touch all; while [ ! -e end ]; do sleep 0.01; done'
                local options = function() return { together, slots = 0 } end
                local first = queue:addOperation(function() return shell(options()):wait().status end)
                local second = queue:addOperation(function() return shell(options()):wait().status end)
                local third = shell { together }
                while opscript.process({ 'test', '-e', folder .. '/all' }):wait().status ~= 0 do opscript.sleep(0.01) end
                opscript.run { 'touch', folder .. '/end' }
                queue:waitUntilAllOperationsAreFinished()
                local statuses = { first.result, second.result, third:wait().status }
                return most(), table.concat(statuses, ' ')
                """)
        #expect(values == [3, "0 0 0"])
    }

    @Test("Programs that need all places wait for each other, and for the others")
    func heavy() throws {
        let values = try script(
            workers: 3,
            Self.prelude + """
                for i = 1, 12 do
                  queue:addOperation(function()
                    -- A heavy program counts as three.
                    local isHeavy = i % 3 == 0
                    shell { isHeavy and 'touch run.$$a run.$$b; ls run.* | wc -l >> seen; rm run.$$a run.$$b' or 'true', slots = isHeavy and 99 or nil }:wait()
                  end)
                end
                queue:waitUntilAllOperationsAreFinished()
                return most()
                """)
        #expect(values == [3])
    }

    @Test(
        "slots must be a number of places",
        arguments: [("-1", "-1"), ("1.5", "number"), ("'many'", "string"), ("true", "boolean")])
    func misuse(value: String, shown: String) throws {
        let message = try script("return select(2, pcall(opscript.process, { 'true', slots = \(value) }))").first?.text ?? ""
        #expect(message.hasSuffix("slots must be a number of places, 0 or more, got \(shown))"), "\(message)")
    }

    /// A runtime whose messages are collected.
    private func withMessages(workers: Int, _ body: (Runtime, Locked<String>) throws -> Void) throws {
        let messages = Locked("")
        var configuration = Runtime.Configuration()
        configuration.workerCount = workers
        configuration.ignoresEnvironment = true
        configuration.errorOutput = { bytes in messages.withLock { $0 += String(decoding: bytes, as: UTF8.self) } }
        let runtime = try Runtime(configuration)
        defer { #expect(runtime.close(deadline: .seconds(30)).isEmpty) }
        try runtime.run("queue = opscript.OperationQueue.new 'test'")
        try body(runtime, messages)
    }

    @Test("If programs that compute nothing have all places, one more is lent, and a message says what to write")
    func lending() throws {
        try withMessages(workers: 2) { runtime, messages in
            let operations = try runtime.run(
                """
                local ops = {}
                for i = 1, 2 do
                  ops[i] = opscript.Operation.new { name = 'server ' .. i, main = function() opscript.process({ 'sleep', 1000 }):wait() end }
                  queue:addOperation(ops[i])
                end
                ops[3] = opscript.Operation.new { name = 'client', main = function() return 'served' end }
                queue:addOperation(ops[3])
                return ops[1], ops[2], ops[3]
                """
            ).compactMap(\.operation)
            // A worker has its place also while it starts a program.
            var why = ""
            while !why.contains("'sleep' of 'server 1'") || !why.contains("'sleep' of 'server 2'") {
                sched_yield()
                why = operations[2].whyNotRunning?.description ?? ""
            }
            #expect(why.contains("waits for a place: programs have all places: 'sleep' of 'server "))
            #expect(why.hasSuffix("a program that mostly waits needs no place with slots = 0"), "\(why)")
            let now = ContinuousClock.now
            // `sleep` may compute while it starts.
            for second in 0..<1000 where !operations[2].isFinished {
                runtime.core.programs.sample(at: now + .seconds(second))
                if runtime.engine.isEveryPlaceHeld { sched_yield() } else { operations[2].waitUntilFinished() }
            }
            operations[2].waitUntilFinished()
            #expect(messages.withLock { $0 }.contains("opscript: programs have all places: 'sleep' of 'server "))
            for operation in operations { operation.cancel() }
            _ = try runtime.finish()
        }
    }

    @Test("While one of the programs computes, no place is lent")
    func computing() throws {
        try withMessages(workers: 1) { runtime, messages in
            try runtime.run(
                """
                compiler = queue:addOperation(function() opscript.sh('while :; do :; done'):wait() end)
                other = queue:addOperation(function() end)
                """)
            while !runtime.engine.isEveryPlaceHeld { sched_yield() }
            let now = ContinuousClock.now
            for second in 0..<20 { runtime.core.programs.sample(at: now + .milliseconds(second)) }
            #expect(runtime.engine.isEveryPlaceHeld && messages.withLock(\.isEmpty))
            try runtime.run("compiler:cancel()")
            _ = try runtime.finish()
        }
    }
}
