import Testing

/// `--trace`: the file is valid, follows the rules of the format, and says what happened.
@Suite struct TraceTests {
    /// Reads a trace and checks the rules of the format. Prints what the test compares.
    static let checker = """
        local events = require("cjson").decode(io.open(arg[1]):read("a"))
        local slices, tracks, flows, spans, names = {}, {}, {}, {}, {}
        for _, e in ipairs(events) do
          if e.ph == "X" then
            tracks[e.tid] = tracks[e.tid] or {}
            table.insert(tracks[e.tid], e)
            slices[#slices + 1] = e
          elseif e.ph == "M" and e.name == "thread_name" then names[e.tid] = e.args.name
          elseif e.ph == "s" or e.ph == "f" then
            flows[e.id] = flows[e.id] or {}
            flows[e.id][e.ph] = e
          elseif e.ph == "b" or e.ph == "e" then
            local key = e.cat .. e.id .. e.name
            if e.ph == "b" then assert(not spans[key], key) spans[key] = e.ts
            else assert(spans[key] <= e.ts, key) spans[key] = nil end
          end
        end
        assert(next(spans) == nil, "a span without an end")
        for tid, track in pairs(tracks) do
          assert(names[tid], "a track without a name")
          table.sort(track, function(a, b) return a.ts < b.ts or a.ts == b.ts and a.dur > b.dur end)
          local open = {}
          for _, e in ipairs(track) do
            while open[1] and open[#open] <= e.ts + 0.0005 do table.remove(open) end
            assert(not open[1] or e.ts + e.dur <= open[#open] + 0.0005, "slices overlap")
            open[#open + 1] = e.ts + e.dur
          end
        end
        local function isInside(flow)
          for _, e in ipairs(tracks[flow.tid]) do
            if e.ts <= flow.ts + 0.0005 and flow.ts <= e.ts + e.dur + 0.0005 then return true end
          end
        end
        local count = 0
        for id, flow in pairs(flows) do
          count = count + 1
          assert(flow.s and flow.f and flow.s.ts <= flow.f.ts and isInside(flow.s) and isInside(flow.f), "flow " .. id)
        end
        print(count .. " flows")
        table.sort(slices, function(a, b) return a.name < b.name end)
        for _, e in ipairs(slices) do
          print(("%q %s %s"):format(e.name, e.args.outcome or e.args.result, e.args.error and e.args.error:match("[^\\n]*") or ""))
        end
        """

    static func check(_ trace: String) throws -> String {
        let outcome = try Command.lua("-", trace).input(Self.checker).run()
        #expect(outcome.errors.isEmpty, "\(String(decoding: outcome.errors, as: UTF8.self))")
        return String(decoding: outcome.output, as: UTF8.self)
    }

    private func run(_ script: String, _ arguments: String...) throws -> (outcome: Outcome, trace: String) {
        let directory = try ScratchDirectory()
        let trace = "\(directory.path)/trace.json"
        var command = Command.opscript("--trace", trace, "-")
        command.arguments += arguments
        let outcome = try command.input(script).run()
        return (outcome, try Self.check(trace))
    }

    @Test("A trace has the slices, outcomes, errors, programs and arrows of the run, and hostile names are escaped")
    func wholeRun() throws {
        let (outcome, trace) = try run(
            #"""
            local queue = opscript.OperationQueue.new("</script>\"\\\n\1\xff")
            local a = opscript.Operation.new { name = "a </script>\"\1\xff", main = function() end }
            local b = opscript.Operation.new { name = "b", main = function() error("no \1 such", 0) end }
            local c = opscript.Operation.new { name = "c", dependencies = { a, b }, main = function() opscript.sh("exit 3") end }
            local d = opscript.Operation.new { name = "d", asynchronous = true, dependencies = { c }, main = function(op)
              opscript.after(0, function() op:finish() end)
            end }
            queue:addOperations({ a, b, c, d }, true)
            print(b.error)
            """#)
        #expect(outcome.status == 1)  // no code waits for the program
        #expect(
            trace == """
                3 flows
                "a </script>\\"\\1\u{FFFD}" succeeded \n\
                "b" failed no \u{1} such
                "c" succeeded \n\
                "d" succeeded \n\
                "exit 3" exited with status 3 \n
                """)
    }

    @Test("Each attempt of an operation is a slice of its own, with its error")
    func attempts() throws {
        let (outcome, trace) = try run(
            """
            local queue = opscript.OperationQueue.new()
            local flaky = opscript.Operation.new { name = "flaky", retry = { attempts = 3, delay = 0.001 }, main = function(op)
              if op.attempt < 3 then error("no " .. op.attempt, 0) end
            end }
            local async = opscript.Operation.new { name = "later", asynchronous = true, retry = 2, main = function(op)
              opscript.after(0, function() if op.attempt == 1 then op:fail("no") else op:finish() end end)
            end }
            local after = opscript.Operation.new { name = "after", dependencies = { flaky, async } }
            queue:addOperations({ flaky, async, after }, true)
            """)
        #expect(outcome.status == 0)
        let slices = trace.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
        #expect(
            slices.filter { $0.hasPrefix("\"flaky\"") }.sorted() == [
                "\"flaky\" failed no 1", "\"flaky\" failed no 2", "\"flaky\" succeeded ",
            ])
        #expect(slices.filter { $0.hasPrefix("\"later\"") }.sorted() == ["\"later\" failed no", "\"later\" succeeded "])
        #expect(slices.first == "2 flows")
    }

    @Test("A group is a process of its own, with a row for the group and rows without overlaps for its members")
    func groups() throws {
        let directory = try ScratchDirectory()
        let trace = "\(directory.path)/trace.json"
        let outcome = try Command.opscript("--trace", trace, "-").input(
            """
            local queue = opscript.OperationQueue.new()
            local members = {}
            for i = 1, 6 do members[i] = opscript.Operation.new { name = "m" .. i, main = function() opscript.sleep(0.002) end } end
            local inner = opscript.GroupOperation.new { name = "inner", operations = { function() end } }
            members[7] = inner
            local group = opscript.GroupOperation.new { name = [[outer "group"]], operations = members }
            queue:addOperations({ group }, true)
            group:waitUntilFinished()
            """
        ).run()
        #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome)")
        let checker = """
            local events = require("cjson").decode(io.open(arg[1]):read("a"))
            local names, rows, counts = {}, {}, {}
            for _, e in ipairs(events) do
              if e.ph == "M" and e.name == "process_name" then names[e.pid] = e.args.name end
              if e.ph == "X" and e.cat == "group" then
                assert(e.pid > 1)
                local row = ("%d %d"):format(e.pid, e.tid)
                rows[row] = rows[row] or {}
                table.insert(rows[row], e)
                counts[e.pid] = (counts[e.pid] or 0) + 1
              end
            end
            for row, slices in pairs(rows) do
              table.sort(slices, function(a, b) return a.ts < b.ts end)
              for i = 2, #slices do assert(slices[i - 1].ts + slices[i - 1].dur <= slices[i].ts + 0.0005, "members overlap in row " .. row) end
              local whole = rows[("%d 0"):format(slices[1].pid)][1]
              for _, e in ipairs(slices) do
                assert(whole.ts <= e.ts + 0.0005 and e.ts + e.dur <= whole.ts + whole.dur + 0.0005, e.name .. " is not inside its group")
              end
            end
            local lines = {}
            for process, count in pairs(counts) do lines[#lines + 1] = names[process] .. ": " .. count end
            table.sort(lines)
            print(table.concat(lines, "\\n"))
            """
        let checked = try Command.lua("-", trace).input(checker).run()
        #expect(checked.text == "group inner: 2\ngroup outer \"group\": 8\n" && checked.errors.isEmpty, "\(checked)")
    }

    @Test("An operation without a name is called by the line that made it")
    func places() throws {
        let (_, trace) = try run("local queue = opscript.OperationQueue.new()\nqueue:addOperation(function() end)")
        #expect(trace == "0 flows\n\"stdin:2\" succeeded \n")
    }

    @Test("A slice shows where an operation was blocked")
    func blocked() throws {
        let (_, trace) = try run(
            """
            local queue = opscript.OperationQueue.new()
            local outer = opscript.Operation.new { name = "outer", main = function() opscript.sleep(0.05) end }
            queue:addOperations({ outer }, true)
            """)
        #expect(trace.hasPrefix("0 flows\n\"blocked\" ") && trace.hasSuffix("\"outer\" succeeded \n"))
    }

    @Test("A trace of many operations follows the rules of the format")
    func manyOperations() throws {
        let (outcome, trace) = try run(
            """
            local queue, last = opscript.OperationQueue.new { maxConcurrentOperationCount = 3 }
            for i = 1, 3000 do
              local op = opscript.Operation.new { dependencies = { last }, main = function() return i end }
              if i % 7 == 0 then last = op end
              queue:addOperation(op)
            end
            """)
        #expect(outcome.status == 0)
        #expect(trace.split(separator: "\n").count == 3001)
    }

    @Test("os.exit, in the main state and in an operation, leaves a valid trace", arguments: ["main", "operation"])
    func exits(from place: String) throws {
        let (outcome, trace) = try run(
            """
            local queue = opscript.OperationQueue.new()
            local op = queue:addOperation(function() return 1 end)
            op:waitUntilFinished()
            if arg[1] == "main" then os.exit(3) end
            queue:addOperation(function() os.exit(3) end):waitUntilFinished()
            """, place)
        #expect(outcome.status == 3)
        #expect(trace.contains("\"stdin:2\" succeeded"))
    }

    @Test("A process that is killed leaves a valid trace")
    func killed() throws {
        let directory = try ScratchDirectory()
        let trace = "\(directory.path)/trace.json"
        let outcome = try Command.opscript("--trace", trace, "-").input(
            "opscript.OperationQueue.new():addOperation(function() end):waitUntilFinished() require('socket') "
                + "io.popen('kill -9 $PPID'):read('a') while true do end"
        ).run()
        #expect(outcome.status == 128 + 9)
        _ = try Self.check(trace)
    }

    @Test("A file that cannot be written is one error before anything runs")
    func unwritableFile() throws {
        let outcome = try Command.opscript("--trace", "/proc/none/trace.json", "-e", "print(1)").run()
        #expect(outcome.status == 1)
        #expect(outcome.output.isEmpty)
        #expect(
            String(decoding: outcome.errors, as: UTF8.self)
                == "opscript: --trace: cannot write '/proc/none/trace.json': No such file or directory\n")
    }
}
