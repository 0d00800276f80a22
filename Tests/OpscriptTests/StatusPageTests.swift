import Testing

/// `--status`: the answers of the server during a run.
@Suite struct StatusPageTests {
    /// Has operations of every outcome. The last one starts after a line on stdin.
    private static let script = #"""
        local queue = opscript.OperationQueue.new "a \"queue\" \\ \n# HELP x"
        local Operation = opscript.Operation
        queue:addOperation(Operation.new { name = "</script><img src=x onerror=\"document.title='harmed'\">\n\ndata: x", main = function() end })
        local failing = queue:addOperation(Operation.new { name = "failing", main = function() error "no such thing" end })
        queue:waitUntilAllOperationsAreFinished()
        assert(failing.error)
        local held = opscript.OperationQueue.new { name = "held", isSuspended = true }
        held:addOperation(Operation.new { name = "later", main = function() end })
        print "ready"
        io.stdout:flush()
        io.read()
        held.isSuspended = false
        held:waitUntilAllOperationsAreFinished()
        print "later"
        io.stdout:flush()
        io.read()
        """#

    @Test("The page, the events and the metrics need the token, are read only, and are served to no name but localhost")
    func refusals() throws {
        let run = try LiveRun(Self.script)
        #expect(try run.status("/") == 200)
        #expect(try run.status("/", token: nil) == 403)
        #expect(try run.status("/metrics", token: nil) == 403)
        #expect(try run.status("/metrics", token: String(repeating: "0", count: 32)) == 403)
        #expect(try run.status("/nothing", token: nil) == 403)
        #expect(try run.status("/nothing") == 404)
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] { #expect(try run.status("/", "-X", method, "-d", "x") == 405, "\(method)") }
        #expect(try run.status("/", "-I") == 405)
        for host in ["evil.example", "evil.example:\(run.port)", "127.0.0.1.evil.example", "localhost.evil.example", "[::1].evil.example"] {
            #expect(try run.status("/", "-H", "Host: \(host)") == 403, "\(host)")
        }
        #expect(try run.status("/", "-H", "Host;") == 403)
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80"] {
            #expect(try run.status("/", "-H", "Host: \(host)") == 200, "\(host)")
        }
        #expect(try run.finish() == 0)
    }

    @Test("An open page gets the state of the run while it goes on, and its end")
    func events() throws {
        let run = try LiveRun(Self.script)
        let stream = try run.openEvents()
        let first = try stream.event(containing: #""outcomes":[1,1,0,1,0]"#)
        #expect(first.hasPrefix("data: {") && !first.contains("<"), "\(first)")
        #expect(first.contains(#"run.lua:4: no such thing\n  local failing = queue:addOperation("#), "\(first)")
        try run.goOn(until: "later")
        _ = try stream.event(containing: #""outcomes":[2,1,0,0,0]"#)
        #expect(try run.finish() == 0)
        _ = try stream.event(containing: "event: end\ndata: end")
    }

    @Test("A Prometheus client understands the metrics")
    func metrics() throws {
        let run = try LiveRun(Self.script)
        let text = try run.get("/metrics")
        let outcome = try Command(
            program: "/usr/bin/python3", name: "python3",
            arguments: [
                "-c",
                """
                import sys
                from prometheus_client.parser import text_string_to_metric_families
                for family in text_string_to_metric_families(sys.stdin.read()):
                    assert family.documentation, family
                    for sample in family.samples:
                        print(family.type, sample.name, sorted(sample.labels.items()), sample.value)
                """,
            ]
        ).input(text).run()
        #expect(outcome.status == 0, "\(outcome)\n\(text)")
        for line in [
            "counter opscript_operations_added_total [] 3.0",
            "counter opscript_operations_finished_total [('outcome', 'succeeded')] 1.0",
            "counter opscript_operations_finished_total [('outcome', 'failed')] 1.0",
            "gauge opscript_operations [('state', 'ready')] 1.0",
            "gauge opscript_queue_operations [('queue', 'held'), ('state', 'ready')] 1.0",
            "gauge opscript_workers [('state', 'blocked')] 0.0",
            "histogram opscript_operation_duration_seconds_bucket [('le', '+Inf')] 2.0",
            "histogram opscript_operation_duration_seconds_count [] 2.0",
            "histogram opscript_operation_wait_seconds_count [] 2.0",
            "counter opscript_programs_started_total [] 0.0",
        ] { #expect(outcome.lines.contains(line), "\(line) is not in \(outcome)") }
        for name in ["opscript_uptime_seconds", "process_resident_memory_bytes", "process_cpu_seconds_total", "opscript_build_info"] {
            #expect(outcome.lines.contains { $0.contains(" \(name) ") && !$0.hasSuffix(" 0.0") }, "\(name) is not in \(outcome)")
        }
        #expect(try run.finish() == 0)
    }

    @Test("Programs count, whether the script or an operation has started them")
    func programs() throws {
        let run = try LiveRun(
            """
            opscript.sh("true"):wait()
            opscript.OperationQueue.new():addOperation(function() opscript.sh("true"):wait() end):waitUntilFinished()
            print "ready"
            io.stdout:flush()
            io.read()
            os.exit(0)
            """)
        let metrics = try run.get("/metrics")
        #expect(metrics.split(separator: "\n").contains("opscript_programs_started_total 2"), "\(metrics)")
        #expect(try run.finish() == 0)
    }

    @Test("A queue may have any name, and queues with equal names are counted together")
    func queueNames() throws {
        let run = try LiveRun(
            #"""
            local names = { "same", "same", "a \"b\" \\ \n# HELP x", "\xff\0" }
            for _, name in ipairs(names) do
              opscript.OperationQueue.new { name = name, isSuspended = true }:addOperation(function() end)
            end
            print "ready"
            io.stdout:flush()
            io.read()
            os.exit(0)
            """#)
        let lines = try run.get("/metrics").split(separator: "\n").filter { $0.hasPrefix("opscript_queue_operations{") }
        #expect(lines.contains(#"opscript_queue_operations{queue="same",state="ready"} 2"#), "\(lines)")
        #expect(lines.contains(#"opscript_queue_operations{queue="a \"b\" \\ \#u{FFFD}# HELP x",state="ready"} 1"#), "\(lines)")
        #expect(lines.count == 9, "\(lines)")
        #expect(try run.finish() == 0)
    }

    @Test("A browser shows the page without errors, and hostile names do no harm")
    func browser() throws {
        let run = try LiveRun(Self.script)
        let directory = try ScratchDirectory()
        // The browser writes the elements when the server has ended the stream of events.
        let (elements, messages) = (try ScratchFile(), try ScratchFile())
        let nothing = try ScratchFile()
        let browser = try Browser.command(opening: run.url, in: directory)
            .start(streams: [nothing.descriptor, elements.descriptor, messages.descriptor])
        try run.waitForPage()
        try run.goOn(until: "later")
        #expect(try run.finish() == 0)
        #expect(try browser.wait(seconds: 60) == 0)
        let console = String(decoding: messages.contents(), as: UTF8.self)
        #expect(!console.contains("CONSOLE"), "\(console)")
        let page = Browser.elements(String(decoding: elements.contents(), as: UTF8.self))
        #expect(page.contains("<title>Status of /tmp/") && page.contains("The run has ended.") && !page.contains("<img"), "\(page)")
        #expect(page.contains("&lt;/script&gt;&lt;img src=x") && page.contains(">later<"), "\(page)")
        #expect(page.contains("outcome: failed") && page.contains("run.lua:4: no such thing"), "\(page)")
    }

    @Test("Clients that do not read do not delay the run")
    func deadClients() throws {
        let run = try LiveRun(
            """
            local queue = opscript.OperationQueue.new()
            for round = 1, 20 do
              for i = 1, 200 do queue:addOperation(opscript.Operation.new { name = ("x"):rep(5000) .. round .. " " .. i, main = function() end }) end
              queue:waitUntilAllOperationsAreFinished()
            end
            print "ready"
            io.stdout:flush()
            io.read()
            """)
        // Each event is larger than what a socket holds.
        let dead = try (0..<4).map { _ in try run.connect(sending: "GET /events?token=\(run.token) HTTP/1.1\r\nHost: localhost\r\n\r\n") }
        let incomplete = try run.connect(sending: "GET /")
        let stream = try run.openEvents()
        _ = try stream.event(containing: #""outcomes":[4000,0,0,0,0]"#)
        #expect(try run.get("/metrics").contains("opscript_operations_added_total 4000\n"))
        #expect(try run.finish() == 0)
        withExtendedLifetime((dead, incomplete)) {}
    }

    @Test("A long run shows its latest operations and keeps the sums of all")
    func longRun() throws {
        let run = try LiveRun(
            """
            local queue = opscript.OperationQueue.new { maxConcurrentOperationCount = 1 }
            local failed = queue:addOperation(opscript.Operation.new { name = "early failure", main = function() error "early" end })
            for round = 1, 10 do
              for i = 1, 1000 do queue:addOperation(opscript.Operation.new { name = "op " .. round * 1000 + i, main = function() end }) end
              queue:waitUntilAllOperationsAreFinished()
            end
            assert(failed.error)
            print "ready"
            io.stdout:flush()
            io.read()
            """)
        let event = try run.openEvents().event(containing: #""outcomes":[10000,1,0,0,0]"#)
        for name in [#""early failure""#, #""op 11000""#, #""op 10000""#] { #expect(event.contains(name), "\(name)") }
        #expect(!event.contains(#""op 1500""#) && event.contains(#""replay":[]"#))
        #expect(event.utf8.count < 1_000_000)
        #expect(try run.finish() == 0)
    }

    @Test("A port in use and a wrong address are one error before anything runs")
    func wrongAddresses() throws {
        let run = try LiveRun(Self.script)
        let taken = try Command.opscript("--status", "\(run.port)", "-e", "print(1)").run()
        #expect(taken.status == 1 && taken.output.isEmpty)
        #expect(taken.errorText == "opscript: --status: cannot listen at 127.0.0.1, port \(run.port): Address already in use\n")
        #expect(try run.finish() == 0)
        for address in ["", "x", "65536", "-1", "127.0.0.1", "example.org:80", ":80", "::1:80", "[::1]", "1.2.3.4:", "[127.0.0.1:80"] {
            let outcome = try Command.opscript("--status=\(address)", "-e", "print(1)").run()
            #expect(outcome.status == 1 && outcome.output.isEmpty)
            #expect(outcome.errorText.hasPrefix("opscript: '--status' needs a port, or"), "\(outcome)")
        }
    }

    @Test("An address that other machines reach is warned about")
    func otherAddresses() throws {
        let everywhere = try Command.opscript("--status", "0.0.0.0:0", "-e", "print(1)").run()
        #expect(everywhere.status == 0 && everywhere.text == "1\n")
        #expect(everywhere.errorText.hasPrefix("opscript: --status: other machines can reach 0.0.0.0;"), "\(everywhere)")
        for address in ["0", "localhost:0", "127.0.0.2:0"] {
            let outcome = try Command.opscript("--status", address, "-e", "print(1)").run()
            #expect(
                outcome.status == 0
                    && outcome.errorText.wholeMatch(of: /status: http:\/\/127\.0\.0\.\d:\d+\/\?token=[0-9a-f]{32}\n/) != nil, "\(outcome)")
        }
    }
}
