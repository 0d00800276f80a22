import Testing

/// The examples that show one idea each. `ExampleTests` tests `wordcount.lua`.
@Suite("Example scripts")
struct ExampleScriptTests {
    private func example(_ name: String, _ arguments: String...) -> Command {
        var command = Command.opscript("\(Paths.package)/examples/\(name).lua")
        command.name = Paths.opscript  // an example that starts opscript again finds it by this name
        command.arguments += arguments
        command.environment["CC"] = "clang"
        command.timeout = 300
        return command
    }

    @Test("Every example is run by a test")
    func all() throws {
        let names = try Command.shell("cd \"$1\" && ls *.lua", Paths.package + "/examples").run().lines
        let tested = ["build", "logs", "photos", "photoserver", "policies", "subclass", "timers", "wordcount"]
        #expect(names == tested.map { $0 + ".lua" })
    }

    // MARK: photos

    /// Expects an order that respects the dependencies.
    private func expectOrder(of lines: [String]) throws {
        let reload = try #require(lines.firstIndex(of: "reload"))
        #expect(Set(lines[..<reload]) == Set((1...20).map { "download \($0)" }) && reload == 20)
        for item in 1...20 {
            let filter = try #require(lines.firstIndex(of: "filter \(item)"))
            let shown = try #require(lines.firstIndex(of: "reload \(item)"))
            #expect(reload < filter && filter < shown)
        }
        #expect(lines.count == 62 && lines.last == "2 of the view, 20 of items")
    }

    @Test("photos downloads, halves, shows and filters all photos, and shows each again")
    func photos() throws {
        let directory = try ScratchDirectory()
        let outcome = try example("photos", directory.path).run()
        #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome)")
        try expectOrder(of: outcome.lines)
        let pictures = try Command.shell("cd \"$1\" && identify -format '%f %wx%h %[colorspace]\\n' [0-9]*.png | sort -n", directory.path)
            .run()
        #expect(pictures.lines == (1...20).map { "\($0).png 32x24 Gray" }, "\(pictures)")
    }

    @Test("photos runs in the order of addition when it runs one operation at a time")
    func serialPhotos() throws {
        let outcome = try example("photos", "--serial").run()
        #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome)")
        try expectOrder(of: outcome.lines)
        #expect(outcome.lines.filter { $0.hasPrefix("download") } == (1...20).map { "download \($0)" })
    }

    @Test("photos shows nothing more after it was cancelled halfway")
    func cancelledPhotos() throws {
        let outcome = try example("photos", "--cancel").run()
        #expect(outcome.status == 0, "\(outcome)")
        let downloads = outcome.lines.dropLast()
        #expect(downloads.count >= 9 && downloads.count < 20 && downloads.allSatisfy { $0.hasPrefix("download ") }, "\(outcome)")
        #expect(outcome.lines.last == "1 of the view, 0 of items")
    }

    // MARK: commands

    @Test("build makes what has changed, and reports what failed")
    func build() throws {
        let first = try example("build").run()
        #expect(
            first.lines == [
                "51 made, 0 up to date: f1.o f10.o f11.o f12.o f13.o f14.o f15.o f16.o f17.o f18.o f19.o f2.o and 39 more",
                "0 made, 51 up to date",
                "15 made, 36 up to date: f13.o f23.o f3.o f30.o f31.o f32.o f33.o f34.o f35.o f36.o f37.o f38.o and 3 more",
                "the program prints 3889",
            ], "\(first)")
        #expect(first.status == 0 && first.errors.isEmpty)

        let directory = try ScratchDirectory()
        try directory.write("int sum(int a, int b);\n", to: "sum.h")
        try directory.write("#include \"sum.h\"\nint sum(int a, int b) { return a + b; }\n", to: "sum.c")
        try directory.write("int main(void) { return unknown; }\n", to: "main.c")
        let broken = try build(directory.path)
        #expect(broken.status == 1, "\(broken)")
        #expect(broken.errorText.contains("main.c:1") && broken.errorText.contains("unknown"))
        #expect(broken.errorText.contains("was cancelled because"))
        #expect(broken.lines == ["1 made, 0 up to date: sum.o"])

        try directory.write("#include \"sum.h\"\nint main(void) { return sum(-1, 1); }\n", to: "main.c")
        #expect(try build(directory.path).lines == ["2 made, 1 up to date: main.o program"])
        #expect(try build(directory.path).lines == ["0 made, 3 up to date"])
        // The object does not change, so the program needs no linking.
        try directory.write("int sum(int a, int b); // adds\n", to: "sum.h")
        #expect(try build(directory.path).lines == ["2 made, 1 up to date: main.o sum.o"])
        #expect(try build(directory.path, flags: "-O1").lines == ["3 made, 0 up to date: main.o program sum.o"])
    }

    /// Runs the example with a store in the directory.
    private func build(_ directory: String, flags: String = "", _ arguments: String...) throws -> Outcome {
        var command = example("build", directory)
        command.arguments = ["--store", directory + "/.opscript"] + command.arguments + arguments
        command.environment["CFLAGS"] = flags
        return try command.run()
    }

    /// Writes the rules of a build.ninja.
    private static let ninjaRules = """
        printf '%s\\n' 'rule cc' '  command = clang -MMD -MF $out.d -c $in -o $out' '  depfile = $out.d' '  deps = gcc'
        printf '%s\\n' 'rule link' '  command = clang -o $out $in'
        """

    @Test("build makes exactly what ninja makes after a header has changed")
    func buildAndNinja() throws {
        let scratch = try ScratchDirectory()
        let (ours, theirs) = (scratch.path + "/ours", scratch.path + "/theirs")
        #expect(try build(ours, "12").status == 0)
        let prepare = """
            mkdir "$2" && cp "$1"/*.[ch] "$2" && cd "$2" && {
              \(Self.ninjaRules)
              for file in *.c; do echo "build ${file%.c}.o: cc $file"; done
              echo "build program: link $(ls *.c | sed 's/c$/o/' | tr '\\n' ' ')"
            } >build.ninja && ninja >first
            """
        #expect(try Command.shell(prepare, ours, theirs).run().status == 0)
        for header in 0..<10 { try expectTheSame("h\(header).h", "#define H\(header) 1\(header)", ours, theirs, of: 13) }
    }

    @Test("build makes each program of a project, and exactly what ninja makes after a header has changed")
    func projectAndNinja() throws {
        let scratch = try ScratchDirectory()
        let (ours, theirs) = (scratch.path + "/ours", scratch.path + "/theirs")
        // Laid out like Lua's source: two programs, shared files, and headers that include others.
        let prepare = """
            mkdir "$1" && cd "$1" &&
            echo '#define BASE 0' >config.h &&
            printf '#include "config.h"\\n#define SIZE 0\\n' >object.h &&
            printf '#include "object.h"\\n#define WIDTH 0\\n' >text.h &&
            printf '#include "object.h"\\nint object(void) { return BASE + SIZE; }\\n' >object.c &&
            printf '#include "text.h"\\nint text(void) { return SIZE + WIDTH; }\\n' >text.c &&
            printf '#include "config.h"\\nint object(void), text(void);\\nint main(void) { return BASE + object() + text(); }\\n' >run.c &&
            printf '#include "text.h"\\nint text(void);\\nint main (void) { return WIDTH + text(); }\\n' >dump.c &&
            cp -r "$1" "$2" && cd "$2" && {
              \(Self.ninjaRules)
              for file in *.c; do echo "build ${file%.c}.o: cc $file"; done
              for program in dump run; do echo "build $program: link $program.o object.o text.o"; done
            } >build.ninja && ninja >first
            """
        #expect(try Command.shell(prepare, ours, theirs).run().status == 0)
        #expect(try build(ours).lines == ["6 made, 0 up to date: dump dump.o object.o run run.o text.o"])
        #expect(try Command.shell("\"$1/run\" && \"$1/dump\"", ours).run().status == 0)
        try expectTheSame("config.h", "#define BASE 1", ours, theirs, of: 6)
        try expectTheSame("object.h", "#include \"config.h\"\n#define SIZE 2", ours, theirs, of: 6)
        try expectTheSame("text.h", "#include \"object.h\"\n#define WIDTH 4", ours, theirs, of: 6)
        #expect(try build(ours).lines == ["0 made, 6 up to date"])
    }

    /// Changes a header in both folders, and expects that the example makes what ninja makes, of so many files.
    private func expectTheSame(_ header: String, _ text: String, _ ours: String, _ theirs: String, of count: Int) throws {
        let change = """
            printf '%s\\n' "$4" >"$1/$3" && cp "$1/$3" "$2/$3" && cd "$2" &&
            ninja -v | sed -nE 's/.* -o ([^ ]*).*/\\1/p' | sort | tr '\\n' ' '
            """
        let made = try Command.shell(change, ours, theirs, header, text).run().text.split(separator: " ")
        #expect(!made.isEmpty)
        let line = try build(ours).lines.first ?? ""
        #expect(line == "\(made.count) made, \(count - made.count) up to date: " + made.sorted().joined(separator: " "), "\(header)")
    }

    @Test("logs counts each line once, wherever a file is cut into pieces")
    func logs() throws {
        let directory = try ScratchDirectory()
        let line = "2026-01-0%d 12:00:00 %s package%d:amd64 <none> 1.0\n"
        // More than six million bytes make two pieces.
        let script = """
            local actions = { "install", "upgrade", "remove", "status" }
            for i = 1, 120000 do io.write((\"\(line.dropLast())\\n\"):format(i % 3 + 1, actions[i % 4 + 1], i % 7)) end
            """
        let text = try Command.lua("-e", script).run()
        try directory.write(text.text, to: "log")
        let outcome = try example("logs", directory.path + "/log").run()
        #expect(
            outcome.lines == [
                "2026-01-01  10000 installed, 10000 upgraded, 10000 removed", "2026-01-02  10000 installed, 10000 upgraded, 10000 removed",
                "2026-01-03  10000 installed, 10000 upgraded, 10000 removed", "12858\tpackage2", "12858\tpackage6", "12857\tpackage1",
                "12857\tpackage3", "12857\tpackage4",
            ], "\(outcome)")
        let missing = try example("logs", "/nowhere").run()
        #expect(missing.status == 1 && missing.errorText == "logs: /nowhere: No such file or directory\n")
    }

    // MARK: classes, timers, failures

    @Test("subclass tries again, and its own method cancels it")
    func subclass() throws {
        let outcome = try example("subclass").run()
        #expect(
            outcome.lines == [
                "somebody cancels third", "Lucky 'first' (finished)\tluck at attempt 2\t2",
                "Lucky 'second' (failed)\tsecond had no luck 3 times\t3", "Lucky 'third' (cancelled)\tnothing\tnil", "true\ttrue\ttrue",
            ], "\(outcome)")
        #expect(outcome.status == 0 && outcome.errors.isEmpty)
    }

    @Test("timers finishes operations while the script goes on")
    func timers() throws {
        let outcome = try example("timers").run()
        #expect(
            Set(outcome.lines) == [
                "waiting", "  busy, again in 0.01 s", "  busy, again in 0.02 s", "here you are\ttrue", "timeout\tlate",
            ], "\(outcome)")
        #expect(outcome.lines.first == "waiting" && outcome.status == 0 && outcome.errors.isEmpty)
    }

    @Test("policies shows what happens after a failure")
    func policies() throws {
        let outcome = try example("policies").run()
        #expect(
            outcome.lines == [
                "Operation 'fails' (failed)\terror: out of paper", "Operation 'looks' (finished)\tout of paper was the problem",
                "Operation 'strict' (cancelled)\tdependency: 'strict' was cancelled because 'fails', which it depends on, did not succeed",
                "Operation 'stricter' (cancelled)\tdependency: 'stricter' was cancelled because 'strict', which it depends on, did not succeed",
                "Operation 'other' (finished)\tother ran", "Operation 'last' (finished)\tlast ran", "true\tdependency\tstop",
            ], "\(outcome)")
        #expect(outcome.status == 0 && outcome.errors.isEmpty)
    }
}
