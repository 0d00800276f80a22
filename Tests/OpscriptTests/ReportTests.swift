import TestSupport
import Testing

/// `--report`: the page works in a browser from a file, and says what happened.
@Suite struct ReportTests {
    private static let hostile = #"</script><img src=x onerror="document.title='harmed'">'"#

    /// In the script, the hostile name also has a control character and a byte that is not UTF-8.
    private static let script = #"""
        local hostile = "</script><img src=x onerror=\"document.title='harmed'\">'\1\xff"
        local queue = opscript.OperationQueue.new(hostile)
        local serial = opscript.OperationQueue.new { name = "serial", maxConcurrentOperationCount = 1 }
        local a = opscript.Operation.new { name = hostile, main = function() opscript.sleep(0.02) end }
        local b = opscript.Operation.new { name = "b", dependencies = { a }, main = function() error("no </script> such", 0) end }
        local c = opscript.Operation.new { name = "c", dependencies = { b }, main = function() opscript.sleep(0.02) end }
        local d = opscript.Operation.new { main = function() end }
        d:addDependency(c)
        d:cancel()
        queue:addOperations({ a, b, c, d }, true)
        print(b.error)
        """#

    private func report(_ script: String, in directory: ScratchDirectory) throws {
        let outcome = try Command.opscript("--workers", "2", "--report", "\(directory.path)/run.html", "-").input(script).run()
        #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome)")
    }

    /// Opens the page in a browser. Returns its elements, without those of its script and style.
    private func open(in directory: ScratchDirectory) throws -> String {
        let outcome = try Browser.command(opening: "file://\(directory.path)/run.html", in: directory).run()
        #expect(!outcome.errorText.contains("CONSOLE"), "\(outcome.errorText)")
        return Browser.elements(outcome.text)
    }

    private func texts(_ pattern: Regex<(Substring, Substring)>, in page: String) -> [String] {
        page.matches(of: pattern).map { String($0.1.replacing(/<[^>]*>/, with: "|")) }
    }

    @Test("A report has the summary, the critical path, the estimates and all operations, and hostile names do no harm")
    func wholeRun() throws {
        let directory = try ScratchDirectory()
        try report(Self.script, in: directory)
        let page = try open(in: directory)
        #expect(page.contains("<title>Report of stdin</title>") && !page.contains("<img"), "\(page)")

        let facts = texts(/<dd[^>]*>(.*?)<\/dd>/, in: page)
        #expect(facts.count == 7 && facts[1...5] == ["4", "2", "1", "1", "2"], "\(facts)")

        let steps = texts(/<li value[^>]*>(.*?)<\/li>/, in: page).map { $0.replacing(#/: ran [0-9.]+ .?s; /#, with: ": ") }
        let name = Self.hostile.replacing("<", with: "&lt;").replacing(">", with: "&gt;") + "\u{2401}\u{FFFD}"
        #expect(steps.count == 3, "\(steps)")
        #expect(steps.first?.hasPrefix("|\(name)| (stdin:4): was the first on its worker") == true, "\(steps)")
        for (step, beginning) in zip(steps.dropFirst(), ["|b| (stdin:5): waited for", "|c| (stdin:6): waited for"]) {
            #expect(step.hasPrefix("\(beginning) the operation before, its dependency"), "\(step)")
        }

        #expect(texts(/<th scope="row">(.*?)<\/th>/, in: page) == ["1", "2 (as in this run)", "4", "8", "16"])

        let rows = texts(/<div class="row[^"]*" role="row"[^>]*>(.*?)<\/div><\/div>/.dotMatchesNewlines(), in: page)
        #expect(rows.count == 5, "\(rows)")
        let places = ["|Name|", "|\(name)|", "|b|", "|c|", "|stdin:7|"]
        for (row, place) in zip(rows, places) { #expect(row.contains(place), "\(row)") }
        #expect(rows[2].contains("|failed|") && rows[2].contains("no &lt;/script&gt; such"), "\(rows)")
        #expect(rows[3].contains("|dependencies|") && rows[4].contains("|cancelled|"), "\(rows)")
        #expect(page.contains(#"aria-rowcount="5""#) && page.contains(#"aria-sort="none""#))
    }

    @Test("A failed operation has the source line and the traceback that the command reports")
    func failure() throws {
        let directory = try ScratchDirectory()
        let script = try directory.write(
            """
            local queue = opscript.OperationQueue.new()
            local function title(page) return #page.title end
            local op = queue:addOperation(function() local n = title {} return n end)
            op:waitUntilFinished()
            """, to: "fail.lua")
        let outcome = try Command.opscript("--report", "\(directory.path)/run.html", script).run()
        #expect(outcome.status == 1)
        let lines = outcome.errorText.split(separator: "\n").dropLast().filter { !$0.hasPrefix("  in ") }.map(String.init)
        #expect(lines.count == 6 && lines[2].hasSuffix("^") && lines[3] == "stack traceback:", "\(lines)")
        let error = lines.joined(separator: "\n").dropFirst("opscript: ".count).replacing("<", with: "&lt;").replacing(">", with: "&gt;")
        let page = try open(in: directory)
        #expect(page.contains("\n\n\(error)</pre>"), "\(page)\n\(error)")
        #expect(page.contains("(field 'title')</div>"), "\(page)")
    }

    @Test("An operation that was tried again is one row, with a slice and an error for each attempt")
    func attempts() throws {
        let directory = try ScratchDirectory()
        try report(
            """
            local queue = opscript.OperationQueue.new()
            local op = opscript.Operation.new { name = "flaky", retry = { attempts = 3, delay = 0.001 }, main = function(op)
              if op.attempt < 3 then error("no " .. op.attempt, 0) end
            end }
            queue:addOperations({ op }, true)
            """, in: directory)
        let page = String(decoding: try #require(Paths.read("\(directory.path)/run.html")), as: UTF8.self)
        try directory.write(
            page + """
                <script>
                  select(0);
                  document.body.append(element("samp", tracks.reduce((sum, track) => sum + track.length, 0) + " slices"));
                </script>
                """, to: "run.html")
        let shown = try open(in: directory)
        #expect(texts(/<samp>(.*?)<\/samp>/, in: shown) == ["3 slices"])
        #expect(shown.contains("attempt 1 failed: no 1\nattempt 2 failed: no 2") && shown.contains(#"aria-rowcount="2""#), "\(shown)")
        let facts = texts(/<dd[^>]*>(.*?)<\/dd>/, in: shown)
        #expect(facts.count == 5 && facts[1...2] == ["1", "1"], "\(facts)")
    }

    @Test("The members of a group are listed below it, and folding hides them")
    func groups() throws {
        let directory = try ScratchDirectory()
        try report(
            """
            local queue = opscript.OperationQueue.new()
            local inner = opscript.GroupOperation.new { name = "inner", operations = { opscript.Operation.new { name = "leaf" } } }
            local group = opscript.GroupOperation.new { name = "outer", operations = { opscript.Operation.new { name = "first" }, inner } }
            queue:addOperation(opscript.Operation.new { name = "before" })
            queue:addOperation(group)
            queue:addOperation(opscript.Operation.new { name = "after" })
            queue:waitUntilAllOperationsAreFinished()
            """, in: directory)
        let page = String(decoding: try #require(Paths.read("\(directory.path)/run.html")), as: UTF8.self)
        try directory.write(
            page + """
                <script>
                  const list = () => document.body.append(element("samp", order.map(i => depth(i) + name(i)).join(" ")));
                  list();
                  document.querySelectorAll(".fold")[1].click();
                  list();
                  document.querySelectorAll(".fold")[0].click();
                  list();
                  sort(0);
                  list();
                </script>
                """, to: "run.html")
        let shown = try open(in: directory)
        #expect(
            texts(/<samp>(.*?)<\/samp>/, in: shown) == [
                "0before 0outer 1first 1inner 2leaf 0after", "0before 0outer 1first 1inner 0after", "0before 0outer 0after",
                "0after 0before 1first 1inner 2leaf 0outer",
            ])
    }

    @Test("The times below the timeline are round, and have a unit that fits")
    func ticks() throws {
        let directory = try ScratchDirectory()
        try report("opscript.OperationQueue.new():addOperation(function() end)", in: directory)
        let page = String(decoding: try #require(Paths.read("\(directory.path)/run.html")), as: UTF8.self)
        try directory.write(
            page + """
                <script>
                  const ranges = [[0, 1000, 4], [0, 8.4e6, 8], [12.3e6, 1e6, 5], [2.9999e9, 3e6, 3], [0, 2.5e9, 8], [3600e9, 900e9, 6], [0, 1, 8]];
                  for (const [from, span, most] of ranges) {
                    document.body.append(element("samp", ticks(from, span, most).map(tick => tick.label).join(", ")));
                  }
                </script>
                """, to: "run.html")
        #expect(
            texts(/<samp>(.*?)<\/samp>/, in: try open(in: directory)) == [
                "0.0 µs, 0.5 µs",
                "0 ms, 2 ms, 4 ms, 6 ms, 8 ms",
                "12.4 ms, 12.6 ms, 12.8 ms, 13.0 ms, 13.2 ms",
                "3.000 s, 3.001 s, 3.002 s",
                "0.0 s, 0.5 s, 1.0 s, 1.5 s, 2.0 s",
                "3600 s, 3800 s, 4000 s, 4200 s, 4400 s",
                "0.0000 µs, 0.0002 µs, 0.0004 µs, 0.0006 µs, 0.0008 µs",
            ])
    }

    @Test("A report of 50,000 operations shows only the rows in view")
    func manyOperations() throws {
        let directory = try ScratchDirectory()
        let count = TestLength.isQuick ? TestLength.size(50_000) : 50_000
        try report(
            """
            local queue = opscript.OperationQueue.new { maxConcurrentOperationCount = 1 }
            queue.isSuspended = true
            for i = 1, \(count) do queue:addOperation(function() end) end
            queue.isSuspended = false
            """, in: directory)
        let page = try open(in: directory)
        #expect(page.contains(#"aria-rowcount="\#(count + 1)""#) && page.contains("\(count) operations"))
        #expect(page.matches(of: /role="row"/).count < 100)
        #expect(page.contains("… \(count - 400) more operations …</li>"))
    }

    @Test("The table sorts, searches and selects by the keyboard")
    func table() throws {
        let directory = try ScratchDirectory()
        try report(
            """
            local queue = opscript.OperationQueue.new()
            for i = 1, 200 do queue:addOperation(opscript.Operation.new { name = "op " .. i, main = function() end }) end
            """, in: directory)
        let page = String(decoding: try #require(Paths.read("\(directory.path)/run.html")), as: UTF8.self)
        try directory.write(
            page + """
                <script>
                  document.querySelector("#head button").click();
                  document.querySelector("#head button").click();
                  $("search").value = "OP 19";
                  $("search").dispatchEvent(new Event("input"));
                  setTimeout(() => {
                    for (const key of ["Home", "ArrowDown", "End", "ArrowUp"]) $("rows").dispatchEvent(new KeyboardEvent("keydown", { key }));
                    for (const key of ["+", "ArrowRight", "-", "0"]) canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
                    canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: 400, clientY: canvas.getBoundingClientRect().top + 5 }));
                  }, 1000);
                </script>
                """, to: "run.html")
        let changed = try open(in: directory)
        #expect(changed.contains("12 of 200 operations") && changed.contains(#"aria-sort="descending""#), "\(changed)")
        let names = texts(/<div role="cell">(op .*?)<\/div>/, in: changed)
        #expect(names == (190...199).reversed().map { "op \($0)" } + ["op 19", "op 119"])
        #expect(changed.contains(#"aria-rowindex="12" aria-current="true""#), "\(changed)")
        #expect(changed.contains(">op 19\noutcome: succeeded\nqueue: queue 1\nline: stdin:2\n"), "\(changed)")
    }

    @Test("A run without operations has a report")
    func nothing() throws {
        let directory = try ScratchDirectory()
        try report("print(1)", in: directory)
        let page = try open(in: directory)
        #expect(page.contains("No operation has run.") && page.contains("0 operations"), "\(page)")
    }

    @Test("os.exit leaves a report, and operations that have not finished are in it")
    func exits() throws {
        let directory = try ScratchDirectory()
        let outcome = try Command.opscript("--report", "\(directory.path)/run.html", "-").input(
            """
            local queue = opscript.OperationQueue.new("held")
            queue.isSuspended = true
            queue:addOperation(function() end)
            os.exit(3)
            """
        ).run()
        #expect(outcome.status == 3, "\(outcome)")
        #expect(try open(in: directory).contains(#"<div role="cell" class="waiting">waiting</div>"#))
    }

    @Test("A trace, a graph and a report can be written of one run")
    func together() throws {
        let directory = try ScratchDirectory()
        let files = ["run.json", "run.dot", "run.html"].map { "\(directory.path)/\($0)" }
        let outcome = try Command.opscript(
            "--trace", files[0], "--graph", files[1], "--report", files[2], "-e",
            "opscript.OperationQueue.new():addOperation(function() end)"
        ).run()
        #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome)")
        for file in files {
            #expect(String(decoding: Paths.read(file) ?? [], as: UTF8.self).contains("(command line):1"), "\(file)")
        }
    }

    @Test("A file that cannot be written is one error before anything runs")
    func unwritableFile() throws {
        let outcome = try Command.opscript("--report", "/proc/none/run.html", "-e", "print(1)").run()
        #expect(outcome.status == 1 && outcome.output.isEmpty)
        #expect(outcome.errorText == "opscript: --report: cannot write '/proc/none/run.html': No such file or directory\n")
    }
}
