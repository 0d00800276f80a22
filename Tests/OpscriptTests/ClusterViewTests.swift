import Testing

/// The views of operations that workers of a cluster run: in traces, in reports, in the row of progress and by `op:why()`.
@Suite struct ClusterViewTests {
    /// Nine operations, one that fails twice, and one that depends on the nine.
    private static let script = """
        local far = opscript.OperationQueue.new("far")
        local near = opscript.OperationQueue.new { name = "near", cluster = false }
        local ops = {}
        for i = 1, 9 do
          ops[i] = opscript.Operation.new { name = "far " .. i, main = function() opscript.sleep(0.02) return i end }
        end
        local bad = opscript.Operation.new { name = "bad", retry = { attempts = 2, delay = 0.001 }, main = function() error("no such", 0) end }
        local sum = opscript.Operation.new { name = "sum", dependencies = ops, main = function() return 1 end }
        local last = opscript.Operation.new { name = "near", dependencies = { sum }, main = function() opscript.sleep(0.02) end }
        far:addOperations(ops)
        far:addOperation(bad)
        far:addOperation(sum)
        near:addOperation(last)
        last:waitUntilFinished()
        bad:waitUntilFinished()
        print(bad.error)
        """

    @Test("A trace has tracks for the workers' slots, with a slice for each attempt, and the local threads only send")
    func trace() throws {
        let directory = try ScratchDirectory()
        let cluster = try TestCluster(workers: 0)
        try cluster.addWorker("--slots", "2")
        try cluster.addWorker("--slots", "1")
        let trace = "\(directory.path)/trace.json"
        let outcome = try cluster.opscript("--trace", trace, "--log", "debug", "-").input(Self.script).run()
        #expect(outcome.status == 0 && outcome.text == "no such\n", "\(outcome)")
        #expect(outcome.errorText.contains("'far 9' has run on w"), "\(outcome)")
        var lines = try TraceTests.check(trace).split(separator: "\n").map { String($0).trimmed }
        // Arrows for nine dependencies and one more, and for each of twelve attempts that were sent.
        #expect(lines.removeFirst() == "22 flows")
        let ran = lines.filter { !$0.hasPrefix("\"send\"") && !$0.hasPrefix("\"blocked\"") }
        #expect(
            ran == ["\"bad\" failed no such", "\"bad\" failed no such"] + (1...9).map { "\"far \($0)\" succeeded" } + [
                "\"near\" succeeded", "\"sum\" succeeded",
            ])
        #expect(lines.count { $0.hasPrefix("\"send\"") } == 12)
        let checker = """
            local events = require("cjson").decode(io.open(arg[1]):read("a"))
            local names, sent, waits = {}, {}, 0
            for _, e in ipairs(events) do
              if e.ph == "M" and e.name == "thread_name" then names[e.tid] = e.args.name end
              if e.ph == "X" and e.cat == "cluster" then
                sent[e.args.operation] = sent[e.args.operation] or e.ts
                assert(not names[e.tid] or not names[e.tid]:find("slot"), "sent by a slot")
              end
              if e.ph == "b" and e.args["for"] == "the cluster" then waits = waits + 1 end
              assert(e.name ~= "asynchronous")
            end
            local ended = 0
            for _, e in ipairs(events) do
              if e.ph == "X" and e.cat == "operation" then
                assert((e.name == "near") == not names[e.tid]:find("^w[12] on .*, slot %d$"), names[e.tid])
                if e.name ~= "near" then assert(sent[e.name] <= e.ts, e.name) end
                if e.name:find("^far") then
                  assert(e.dur >= 20000, e.name)
                  ended = math.max(ended, e.ts + e.dur)
                end
                if e.name == "sum" then assert(ended <= e.ts + 0.0005) end
              end
            end
            assert(waits > 0)
            """
        let checked = try Command.lua("-", trace).input(checker).run()
        #expect(checked.status == 0, "\(checked)")
    }

    @Test("A report has rows for the workers' slots, says where each operation ran, and tells waiting for the cluster apart")
    func report() throws {
        let directory = try ScratchDirectory()
        let cluster = try TestCluster(workers: 0)
        try cluster.addWorker("--name", "w1</script>", "--slots", "1")
        let outcome = try cluster.opscript("--workers", "2", "--report", "\(directory.path)/run.html", "-").input(Self.script).run()
        #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome)")
        let file = String(decoding: try #require(Paths.read("\(directory.path)/run.html")), as: UTF8.self)
        try directory.write(
            file + """
                <script>
                  const sum = Array.from({ length: total }, (_, i) => i).find(i => name(i) === "sum");
                  select(sum);
                  const far = data.thread.filter(thread => thread >= 1000000).length;
                  const isWhole = data.name.every((_, i) => waits(i).reduce((sum, wait) => sum + wait[0], 0) <= waited(i));
                  document.body.append(element("samp", `${far} far, ${tracks.at(-1).length} slices in ${threads.at(-1).name}, ${isWhole}`));
                </script>
                """, to: "run.html")
        let opened = try Browser.command(opening: "file://\(directory.path)/run.html", in: directory).run()
        #expect(!opened.errorText.contains("CONSOLE"), "\(opened.errorText)")
        let page = Browser.elements(opened.text)
        let name = "w1&lt;/script&gt; on "
        #expect(page.contains(/<samp>11 far, 12 slices in w1&lt;\/script&gt; on .*, slot 1, true<\/samp>/), "\(page)")
        #expect(page.contains("<dt>Workers of the cluster</dt><dd>1 (1 slot)</dd>"), "\(page)")
        #expect(page.contains(/<div role="cell">the cluster<\/div>/), "\(page)")
        #expect(page.contains(/<div role="cell">w1&lt;\/script&gt; on [^<,]*<\/div>/), "\(page)")
        #expect(page.contains(/ran [0-9.]+ .?s on w1&lt;\/script&gt; on .*, slot 1/) && page.contains(name), "\(page)")
        // The critical path ends with the operations that wait for others. The number of local workers does not change the cluster's time.
        #expect(page.contains(#/<button type="button">near</button>/#) && page.contains(#/<button type="button">sum</button>/#), "\(page)")
        let estimates = page.matches(of: /<th scope="row">[^<]*<\/th><td>([^<]*)<\/td>/).map(\.1)
        #expect(estimates.count == 5 && Set(estimates).count == 1, "\(estimates)")
    }

    @Test("The status page has a row for a slot, and the metrics count workers, slots and the time that operations spent there")
    func status() throws {
        let cluster = try TestCluster(workers: 0)
        try cluster.addWorker("--slots", "2")
        let run = try LiveRun(
            """
            local queue = opscript.OperationQueue.new("far")
            queue:addOperation(opscript.Operation.new { name = "first", main = function() opscript.sleep(0.1) end }):waitUntilFinished()
            print "ready"
            io.stdout:flush()
            io.read()
            """, "--cluster", cluster.url)
        let stream = try run.openEvents()
        let event = try stream.event(containing: #""outcomes":[1,0,0,0,0]"#)
        #expect(event.contains(#""cluster":[1,2,"#) && event.contains(/"threads":\[\[1000000,"w1 on [^"]*, slot 1"\]\]/), "\(event)")
        let metrics = try run.get("/metrics").split(separator: "\n")
        #expect(metrics.contains("opscript_cluster_workers 1") && metrics.contains("opscript_cluster_slots 2"), "\(metrics)")
        let time = metrics.compactMap { $0.wholeMatch(of: /opscript_cluster_seconds_total ([0-9.]+)/)?.1 }.first.flatMap { Double($0) }
        #expect(try #require(time) >= 0.1)
        #expect(try run.finish() == 0)
    }

    @Test("Without workers, op:why() says so, and so does one notice after five seconds; a worker that comes then runs everything")
    func waiting() throws {
        let cluster = try TestCluster(workers: 0)
        let run = try RunningCommand(
            cluster.opscript(
                "-e",
                """
                local queue = opscript.OperationQueue.new("far")
                local ops = {}
                for i = 1, 3 do ops[i] = queue:addOperation(opscript.Operation.new { name = "a" .. i, main = function() return i end }) end
                local why, reasons = ops[2]:why()
                print(why)
                print(reasons.waits)
                io.stdout:flush()
                queue:waitUntilAllOperationsAreFinished()
                print(ops[3].result, ops[3]:why())
                """))
        let reason = "for a worker of the cluster at \(cluster.url), where none answers"
        #expect(try run.output.line() == "'a2' waits \(reason)")
        #expect(try run.output.line() == reason)
        #expect(
            try run.errors.line()
                == "opscript: no worker of the cluster at \(cluster.url) answers; operations wait (opscript worker --cluster \(cluster.url))"
        )
        try cluster.addWorker("--slots", "1")
        #expect(try run.output.line() == "3\tnil")
        #expect(try run.wait() == 0)
        #expect(throws: CommandError.self) { try run.errors.line() }
    }

    @Test("An operation that was sent waits for a worker until one has taken it")
    func sent() throws {
        let cluster = try TestCluster(workers: 0)
        try cluster.addWorker("--slots", "1")
        let directory = try ScratchDirectory()
        let outcome = try cluster.opscript("-", directory.path).input(
            """
            local queue = opscript.OperationQueue.new("far")
            local busy = opscript.Operation.new { name = "busy", arguments = { arg[1] }, main = function(op, directory)
              io.open(directory .. "/begun", "w"):close()
              while not io.open(directory .. "/go") do opscript.sleep(0.005) end
            end }
            queue:addOperation(busy)
            while not io.open(arg[1] .. "/begun") do opscript.sleep(0.005) end
            -- The worker's message that it has taken the operation may arrive after the body has begun.
            while busy:why() do opscript.sleep(0.005) end
            print(busy:why())
            local others = {}
            for i = 1, 8 do others[i] = queue:addOperation(function() return i end) end
            print((others[8]:why()))
            io.open(arg[1] .. "/go", "w"):close()
            queue:waitUntilAllOperationsAreFinished()
            """
        ).run()
        #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome)")
        let end = "waits for a worker of the cluster at \(cluster.url), which has 1 slot"
        #expect(outcome.lines.first == "nil" && outcome.lines.last?.hasSuffix(end) == true, "\(outcome)")
    }

    @Test("The row of progress says that operations wait for workers, and how many there are")
    func progress() throws {
        let cluster = try TestCluster(workers: 0)
        let home = try ScratchDirectory()
        let script = try home.write(
            """
            local directory = os.getenv 'XDG_STATE_HOME'
            local queue = opscript.OperationQueue.new()
            for i = 1, 4 do
              queue:addOperation(opscript.Operation.new { name = 'job ' .. i, arguments = { directory }, main = function(op, directory)
                while not io.open(directory .. '/go') do opscript.sleep(0.01) end
              end })
            end
            """, to: "script.lua")
        let terminal = try Terminal(home: home)
        try terminal.enter("clear; \"$OPSCRIPT\" --cluster \(cluster.url) \(script); echo ended")
        try terminal.expect { $0.last?.contains("0/4 waiting for workers") == true }
        try cluster.addWorker("--slots", "2")
        try terminal.expect { $0.last?.contains("0/4 1 worker (2 slots) job") == true }
        try terminal.touch("go")
        try terminal.expect { $0.suffix(2) == ["ended", "$"] && !$0.contains { $0.contains("0/4") || $0.contains("no worker") } }
    }

    @Test("Lines of progress say how many workers there are")
    func lines() throws {
        let cluster = try TestCluster(workers: 0)
        try cluster.addWorker("--slots", "1")
        try cluster.addWorker("--slots", "2")
        let outcome = try cluster.opscript(
            "--progress=always", "-e",
            """
            local queue = opscript.OperationQueue.new()
            queue:addOperation(function() opscript.sleep(1.5) end):waitUntilFinished()
            """
        ).run()
        #expect(outcome.status == 0 && outcome.errorText.contains("opscript: 0/1 operations done, 2 workers (3 slots)\n"), "\(outcome)")
    }
}

extension String {
    fileprivate var trimmed: String { String(reversed().drop { $0 == " " }.reversed()) }
}
