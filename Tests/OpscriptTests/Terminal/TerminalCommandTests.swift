import TestSupport
import Testing

/// Commands of bodies in the process group of the terminal's foreground.
@Suite struct TerminalCommandTests {
    @Test("In a terminal, a stopped body takes its command along, with what that has started")
    func stoppedBody() throws {
        let home = try ScratchDirectory()
        let script = try home.write(
            """
            local function run(main)
              local op = opscript.Operation.new { timeout = 0.1, main = main }
              opscript.OperationQueue.new():addOperation(op)
              op:waitUntilFinished()
              return op.error.kind
            end
            print(run(function() io.popen "sleep 1000; true":read "a" end), run(function() os.execute "sleep 1000; true" end))
            """, to: "script.lua")
        let terminal = try PseudoTerminal(["--progress=never", script], program: Paths.opscript, home: home)
        #expect(terminal.finish() == 0)
        let text = String(decoding: terminal.output, as: UTF8.self)
        #expect(text.split(whereSeparator: \.isNewline) == ["timeout\ttimeout"], "\(text.debugDescription)")
    }
}
