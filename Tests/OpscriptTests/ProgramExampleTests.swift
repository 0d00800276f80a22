import Testing

/// The scripts of `examples/programs`, each with inputs of its own in a folder that has copies of the scripts.
@Suite("Examples of programs")
struct ProgramExampleTests {
    private static let scripts = "\(Paths.package)/examples/programs"

    private func run(_ commands: String) throws -> Outcome {
        let directory = try ScratchDirectory()
        return try Command.shell("set -e; cp \"$1\"/*.lua .\n" + commands, Self.scripts).directory(directory.path).run()
    }

    @Test("Every example is run by a test")
    func all() throws {
        let tested = ["check", "compile", "compress", "download", "sum"]
        #expect(try Command.shell("cd \"$1\" && ls", Self.scripts).run().lines == tested.map { $0 + ".lua" })
    }

    @Test("sum adds up what awk adds up, however the pieces divide the lines")
    func sum() throws {
        let outcome = try run(
            """
            awk 'BEGIN { srand(7); for (i = 0; i < 200000; i++) print "host" int(rand() * 20), "GET /", int(rand() * 1000) }' >log
            awk '{ sums[$1] += $NF } END { for (key in sums) print key "\\t" sums[key] }' log | sort >expected
            for megabytes in 32 0.1003; do "$OPSCRIPT" sum.lua log $megabytes | sort | cmp - expected; done
            wc -l <expected
            """)
        #expect(outcome == Outcome(status: 0, output: Array("20\n".utf8), errors: []), "\(outcome)")
    }

    @Test("compress compresses each file once, and again after a change")
    func compress() throws {
        let outcome = try run(
            """
            mkdir files
            for i in 1 2 3 4 'a b'; do echo "$i" >"files/$i"; done
            compress() { echo "$1:"; "$OPSCRIPT" --explain compress.lua files 2>&1 | sed 's/[^ ]*: //' | sort; }
            compress new
            compress unchanged
            echo more >>files/3
            compress edited
            gzip -dc files/*.gz
            sha256sum -c --quiet files/*.sha256
            """)
        let expected = """
            new:
            files/1 runs: never ran
            files/2 runs: never ran
            files/3 runs: never ran
            files/4 runs: never ran
            files/a b runs: never ran
            unchanged:
            edited:
            files/3 runs: input 'files/3' changed
            1
            2
            3
            more
            4
            a b

            """
        #expect(outcome == Outcome(status: 0, output: Array(expected.utf8), errors: []), "\(outcome)")
    }

    @Test("compile compiles what includes an edited header, and links nothing after an error")
    func compile() throws {
        let outcome = try run(
            """
            mkdir src
            for i in $(seq 24); do
                echo "#define N$i $i" >src/f$i.h
                printf '#include "f%d.h"\\nint f%d(void) { return N%d; }\\n' $i $i $i >src/f$i.c
                echo "int f$i(void);" >>src/main.h
                printf ' + f%d()' $i >>sum
            done
            printf '#include <stdio.h>\\n#include "main.h"\\nint main(void) { printf("%%d\\\\n", 0%s); }\\n' "$(cat sum)" >src/main.c
            "$OPSCRIPT" compile.lua src
            src/program
            echo '#define N3 30' >src/f3.h
            "$OPSCRIPT" --explain compile.lua src 2>&1 | sed 's/[^ ]*: //'
            src/program
            echo '#error four' >>src/f4.h
            "$OPSCRIPT" compile.lua src 2>&1 | grep -c "f4.h:2:.*error: .*four"
            src/program
            """)
        let expected = "300\nsrc/f3.o runs: input 'src/f3.h' changed\nsrc/program runs: input 'src/f3.o' changed\n327\n1\n327\n"
        #expect(outcome == Outcome(status: 0, output: Array(expected.utf8), errors: []), "\(outcome)")
    }

    @Test("download fetches each file from a server that refuses each request once, and does not fetch it again")
    func download() throws {
        let outcome = try run(
            """
            cat >server.py <<'END'
            from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
            from threading import Lock
            seen, lock = set(), Lock()
            class Handler(BaseHTTPRequestHandler):
                def do_GET(self):
                    with lock:
                        again = self.path in seen
                        seen.add(self.path)
                    self.send_response(200 if again else 503)
                    self.end_headers()
                    self.wfile.write(self.path.encode())
                def log_message(self, *arguments): pass
            server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            print(server.server_port, flush=True)
            server.serve_forever()
            END
            mkfifo port
            python3 server.py >port &
            trap "kill $!" EXIT
            read port <port
            for i in $(seq 30); do echo "http://127.0.0.1:$port/file$i"; done >list
            mkdir files
            "$OPSCRIPT" download.lua list files 1000 | grep -c 'attempt 2'
            cat files/* | tr / '\\n' | grep -c file
            rm files/file7
            "$OPSCRIPT" --explain download.lua list files 1000 2>&1 | sed 's/^.*file7 runs/file7 runs/'
            cat files/file7
            """)
        let expected = "30\n30\nfile7 runs: output 'files/file7' is missing\n/file7"
        #expect(outcome == Outcome(status: 0, output: Array(expected.utf8), errors: []), "\(outcome)")
    }

    @Test("check names the programs that fail or hang, and shows what they have written")
    func check() throws {
        let outcome = try run(
            """
            program() { printf '#!/bin/sh\n%s\n' "$2" >"$1"; chmod +x "$1"; }
            program passes 'echo unseen'
            program fails 'echo expected 3, got 4; echo oops >&2; exit 1'
            program hangs 'exec sleep 100'
            "$OPSCRIPT" check.lua 50 ./passes ./fails 2>&1 || echo "status $?"
            "$OPSCRIPT" check.lua 0.2 ./hangs | grep -o 'not ok.*\\|took longer'
            """)
        let expected = """
            ok 1 - ./passes
            not ok 2 - ./fails
            ./fails: exit status 1: expected 3, got 4
            oops
            status 1
            not ok 1 - ./hangs
            took longer

            """
        #expect(outcome == Outcome(status: 0, output: Array(expected.utf8), errors: []), "\(outcome)")
    }
}
