import TestSupport
import Testing

extension ClusterTests {
    @Suite("Files of operations on a cluster") struct Files {
        /// Makes files in upper case, and then one file from all of them. Prints where the bodies ran.
        private static let build = """
            local Operation, queue = opscript.Operation, opscript.OperationQueue.new()
            if arg[1] == "unseen" then
              -- Without its token, no worker can tell that it sees these files.
              queue:addOperation(Operation.new { inputs = { "a.txt" }, main = function()
                assert(os.execute "rm .opscript-token-*")
              end }):waitUntilFinished()
            end
            local function upper(name)
              return Operation.new { name = name, inputs = { name .. ".txt" }, outputs = { "out/" .. name .. ".txt" }, main = function()
                local text = assert(io.open(name .. ".txt")):read "a"
                local file <close> = assert(io.open("out/" .. name .. ".txt", "w"))
                file:write(text:upper())
                return io.popen "pwd":read "l"
              end }
            end
            local parts = { upper "a", upper "b" }
            local all = Operation.new { name = "all", inputs = { "out/*.txt" }, outputs = { "all.sh" }, dependencies = parts, main = function()
              assert(os.execute "cat out/*.txt > all.sh && chmod 750 all.sh")
            end }
            local outside = Operation.new { name = "outside", inputs = { "/etc/passwd" }, main = function() return "ran" end }
            local missing = Operation.new { name = "missing", inputs = { "no.txt", optional = true }, main = function() return io.open "no.txt" == nil end }
            queue:addOperations({ parts[1], parts[2], all, outside, missing }, true)
            for _, op in ipairs { parts[1], parts[2], all, outside, missing } do print(op.name, op.isSkipped, op.error, op.result) end
            """

        private func run(_ argument: String) async throws -> (first: Outcome, second: Outcome, files: Outcome, folder: String) {
            try await TestCluster.run { cluster in
                let folder = try ScratchDirectory()
                for name in ["a", "b"] { try folder.write("file \(name)\n", to: "\(name).txt") }
                try folder.write("", to: "out/none")
                let command = cluster.command(Self.build, arguments: [argument]).directory(folder.path)
                let (first, second) = (try command.run(), try command.run())
                let files = try Command.shell("cat all.sh; stat -c %a all.sh; ls -a | grep token").directory(folder.path).run()
                return (first, second, files, folder.path)
            }
        }

        @Test("A worker that sees the script's files uses them")
        func seen() async throws {
            let (first, second, files, folder) = try await run("seen")
            #expect(
                first.lines == [
                    "a\tfalse\tnil\t\(folder)", "b\tfalse\tnil\t\(folder)", "all\tfalse\tnil\tnil", "outside\tfalse\tnil\tran",
                    "missing\tfalse\tnil\ttrue",
                ], "\(first)")
            #expect(second.lines.prefix(3).allSatisfy { $0.contains("\ttrue\tnil") }, "\(second)")
            #expect(files.lines == ["FILE A", "FILE B", "750"], "\(files)")
        }

        @Test("A worker that does not see the script's files gets the inputs and sends the outputs back")
        func unseen() async throws {
            let (first, second, files, folder) = try await run("unseen")
            let lines = first.lines
            #expect(lines.count == 5 && lines.prefix(3).allSatisfy { $0.contains("\tfalse\tnil") }, "\(first)")
            #expect(!first.text.contains(folder) && first.text.contains("/opscript-"), "\(first)")
            #expect(lines.dropFirst(3).first?.contains("'/etc/passwd' is not below the script's working directory") ?? false, "\(first)")
            #expect(lines.last == "missing\tfalse\tnil\ttrue", "\(first)")
            #expect(second.lines.prefix(3).allSatisfy { $0.contains("\ttrue\tnil") }, "\(second)")
            #expect(files.lines == ["FILE A", "FILE B", "750"], "\(files)")
        }
    }
}
