import Testing

/// The scripts and files that show and set up clusters, beside the command itself.
@Suite("Cluster demo")
struct ClusterDemoTests {
    @Test("The demo builds a program although a worker is killed, and leaves a report and nothing else")
    func demo() throws {
        let directory = try ScratchDirectory()
        let temporary = try ScratchDirectory()
        let report = directory.path + "/report.html"
        let outcome = try script("scripts/cluster-demo", "--quick", report)
            .environment(["OPSCRIPT_COMMAND": Paths.opscript, "TMPDIR": temporary.path]).run()
        #expect(outcome.status == 0 && outcome.errorText.hasSuffix(" files\n"), "\(outcome)")
        #expect(outcome.text.contains("13 made, 0 up to date") && outcome.text.contains("The program prints 67."), "\(outcome)")
        // One of the three workers is gone.
        #expect(outcome.lines.suffix(4).filter { $0.hasPrefix("red ") || $0.hasPrefix("blue ") }.count == 2, "\(outcome)")
        #expect(Paths.read(report)?.isEmpty == false)
        #expect(try Command(program: "ls", name: "ls", arguments: ["-A", temporary.path]).run().text == "")
    }

    @Test("The secrets of a cluster are for their roles only, and the server takes its configuration")
    func secrets() throws {
        let directory = try ScratchDirectory()
        let folder = directory.path + "/secrets"
        let outcome = try script("examples/cluster/make-secrets", folder, "localhost", "127.0.0.1").run()
        #expect(outcome.status == 0 && outcome.output.isEmpty && outcome.errors.isEmpty, "\(outcome)")
        let files = try Command(program: "find", name: "find", arguments: [folder, "-type", "f", "-perm", "600", "-printf", "%P\n"]).run()
        let members = ["coordinator", "observer", "worker"].flatMap { role in
            ["ca.pem", "cluster.env", "cluster.key"].map { "\(role)/\($0)" }
        }
        let server = ["nats-server.conf", "passwords.conf", "server.key", "server.pem"].map { "server/\($0)" }
        #expect(files.lines.sorted() == (members + server).sorted())
        let check = try Command.shell("PATH=$PATH:/usr/sbin; cd \"$1/server\" && nats-server -t -c nats-server.conf", folder).run()
        #expect(check.status == 0, "\(check)")
        for moved in ["coordinator", "observer", "server"] {
            let again = try script("examples/cluster/make-secrets", folder, "localhost").run()
            #expect(again.status == 1 && again.errorText.contains("has secrets already"), "\(again)")
            try #require(try Command(program: "mv", name: "mv", arguments: ["\(folder)/\(moved)", "\(directory.path)/"]).run().status == 0)
        }
    }

    private func script(_ path: String, _ arguments: String...) -> Command {
        Command(program: "\(Paths.package)/\(path)", name: path, arguments: arguments)
    }
}
