import TestSupport
import Testing

@Suite("The host programs", .disabled(if: TestLength.isQuick, "they build the libraries once more"), .serialized)
struct HostTests {
    @Test("examples/host builds as a package of its own and runs its scripts")
    func host() throws {
        let outcome = try Example("host").run()
        let expected = "the sum is 12\nas expected: script:1: there is no such item\n"
        #expect(outcome == Outcome(status: 0, output: Array(expected.utf8), errors: []), "\(outcome)")
    }

    @Test("The game loop places all trees")
    func gameLoop() throws {
        let outcome = try Example("gameloop", in: "hosts").run("30")
        #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome)")
        #expect(outcome.lines.last?.hasPrefix("30 frames, 10000 trees; ") == true, "\(outcome)")
    }

    @Test("The job server answers scripts and stops hostile ones")
    func jobServer() throws {
        let program = try Example("jobserver", in: "hosts").program
        let script = #"""
            mkfifo output
            "$1" 0 > output & server=$!
            trap 'kill $server' EXIT
            read -r _ _ url < output
            run() { curl -sS -m 60 --data-binary "$1" "$url"; }
            run 'while true do end' > loop &
            loop=$!
            run 'print "hello"; return 6 * 7, { "a", "b" }, nil'
            run 'error "wrong"'
            run 'return ='
            run 'local t = {} while true do t[#t + 1] = ("x"):rep(1000000) .. #t end'
            run 'return io, os.execute, print'
            run 'return opscript.OperationQueue.new():addOperation(function() return 7 end):waitUntilFinished()'
            curl -sS "$url"; curl -sS -d 'return 1' "${url%run}other"
            head -c 300000 /dev/zero | curl -sS --data-binary @- "$url"
            wait $loop; cat loop
            run 'return 1'
            """#
        let directory = try ScratchDirectory()
        let outcome = try Command.shell(script, program).directory(directory.path).run()
        let expected = [
            #"{"output":"hello\n"}"#, #"{"result":42}"#, #"{"result":["a","b"]}"#, #"{"result":null}"#,
            #"{"error":{"kind":"runtime","message":"script:1: wrong"}}"#,
            #"{"error":{"kind":"syntax","message":"script:1: unexpected symbol near '='"}}"#,
            #"{"error":{"kind":"memory","message":"not enough memory"}}"#,
            #"{"error":{"kind":"result","message":"the script returned what JSON cannot express"}}"#,
            #"{"result":true}"#,
            #"{"error":{"kind":"request","message":"send a script with POST"}}"#,
            #"{"error":{"kind":"request","message":"there is only /run"}}"#,
            #"{"error":{"kind":"request","message":"the script is too long"}}"#,
            #"{"error":{"kind":"time","message":"the script ran longer than it may"}}"#,
            #"{"result":1}"#,
        ]
        #expect(outcome.lines == expected, "\(outcome)")
    }
}
