import ClusterSupport
import Glibc
import TestSupport
import Testing

extension ClusterTests {
    @Suite("Wrong uses of clusters", .serialized) struct Misuse {
        private static let script = "local q = opscript.OperationQueue.new() q:addOperation(print):waitUntilFinished()"

        /// The commands that connect to a cluster.
        private static let commands = [["worker"], ["workers"], ["-e", script]]

        @Test("A URL that is none is refused", arguments: commands, ["host:4222", "http://host", "", "nats://a,b"])
        func badURL(words: [String], url: String) throws {
            var command = Command.opscript()
            command.arguments = words.first == "-e" ? ["--cluster", url] + words : words + ["--cluster", url]
            let outcome = try command.run()
            #expect(outcome.status == 1 && outcome.errorText.contains("'--cluster' needs the URL of a NATS server"), "\(outcome)")
        }

        @Test("An option that is gone says so", arguments: commands) func goneOption(words: [String]) throws {
            var command = Command.opscript()
            let given = ["--cluster", "nats://127.0.0.1:1", "--no-direct"]
            command.arguments = words.first == "-e" ? given + words : words + given
            let outcome = try command.run()
            #expect(outcome.status == 1 && outcome.errorText.contains("'--no-direct' is gone: "), "\(outcome)")
        }

        @Test("A cluster on another machine needs TLS, credentials and a key, which is said before anybody connects", arguments: commands)
        func insecure(words: [String]) throws {
            var command = Command.opscript()
            // No machine has this address: connecting would take long.
            let url = "nats://192.0.2.1:4222"
            command.arguments = words.first == "-e" ? ["--cluster", url] + words : words + ["--cluster", url]
            command.timeout = 10
            let outcome = try command.run()
            #expect(outcome.status == 1 && outcome.errorText.contains("a cluster runs code that comes over the network, so it needs TLS"))
            #expect(outcome.errorText.contains("a key (--key FILE)"), "\(outcome)")
        }

        @Test(
            "A script gets the same error for a URL of its own, also for a name that begins as an address of this machine",
            arguments: [
                "192.0.2.1", "127.0.0.1.example.invalid", "127.example.invalid", "localhost.example.invalid", "127.0.0.1@192.0.2.1",
            ])
        func insecureScript(host: String) throws {
            let outcome = try Command.opscript("-e", "print(pcall(opscript.OperationQueue.new, { cluster = 'nats://\(host)' }))").run()
            #expect(outcome.status == 0 && outcome.text.contains("so it needs TLS"), "\(outcome)")
        }

        @Test(
            "A file that cannot be read is named, with its option", arguments: commands,
            [["--creds"], ["--nkey"], ["--ca"], ["--cert", "--cert-key"], ["--key"]])
        func missingFile(words: [String], options: [String]) throws {
            var command = Command.opscript()
            let given = ["--cluster", "nats://127.0.0.1:1"] + options.flatMap { [$0, "/nowhere/file"] }
            command.arguments = words.first == "-e" ? given + words : words + given
            let outcome = try command.run()
            let reason = outcome.errorText.contains("(\(options[0])) cannot be read: ") || outcome.errorText.contains("key file")
            #expect(
                outcome.status == 1 && reason && outcome.errorText.contains("'/nowhere/file'")
                    && outcome.errorText.contains("No such file or directory"), "\(outcome)")
        }

        @Test("A server whose address is unknown is named", arguments: commands)
        func unknownHost(words: [String]) throws {
            var command = Command.opscript()
            let given = ["--insecure", "--cluster", "nats://nowhere.invalid"]
            command.arguments = words.first == "-e" ? given + words : words + given
            let outcome = try command.run()
            #expect(outcome.status == 1 && outcome.errorText.contains("the address of 'nowhere.invalid' cannot be found: "), "\(outcome)")
        }

        @Test("A script's own URL that is none is refused", arguments: ["", "foo", "nats://"])
        func badURLOfScript(url: String) throws {
            let outcome = try Command.opscript("-e", "opscript.OperationQueue.new { cluster = '\(url)' }").run()
            #expect(outcome.status == 1 && outcome.errorText.contains("a cluster needs the URL of a NATS server"), "\(outcome)")
        }

        @Test("An address that certificates are not checked for is refused")
        func securedIPv6() throws {
            let outcome = try Command.opscript("workers", "--cluster", "tls://[::1]:4222").run()
            #expect(outcome.status == 1 && outcome.errorText.contains("IPv6 address '::1': use a name of the server"), "\(outcome)")
        }

        @Test("A worker's directory that cannot be made is said")
        func badDirectory() throws {
            let outcome = try Command.opscript("worker", "--cluster", "nats://127.0.0.1:1", "--directory", "/proc/nowhere").run()
            #expect(
                outcome.status == 1 && outcome.errorText.contains("no files can be put into '/proc/nowhere' (--directory): "), "\(outcome)")
        }

        @Test("Secrets are made for names and addresses only", arguments: ["a b", "::1", "-x", ""])
        func badNameOfServer(name: String) throws {
            let directory = try ScratchDirectory()
            let outcome = try Command.shell("\(Paths.package)/examples/cluster/make-secrets secrets \"$1\"", name).directory(directory.path)
                .run()
            #expect(outcome.status == 1 && outcome.errorText.contains("'\(name)' is neither a name of a host"), "\(outcome)")
            #expect(try Command.shell("ls").directory(directory.path).run().text == "")
        }

        @Test("Where no server is, that is said at once", arguments: commands)
        func noServer(words: [String]) async throws {
            let outcome = try await onOwnThread {
                // The port of this server is free again.
                let server = try NatsServer()
                server.end()
                var command = Command.opscript()
                command.arguments = words.first == "-e" ? ["--cluster", server.url] + words : words + ["--cluster", server.url]
                return (try command.run(), server.url)
            }
            #expect(outcome.0.status == 1, "\(outcome.0)")
            #expect(outcome.0.errorText.contains("there is no connection to the cluster's server \(outcome.1)"), "\(outcome.0)")
        }

        /// Runs a command that connects to a server that says nothing, and calls `body` when the command waits.
        private func waitForSilentServer(
            _ words: [String], _ body: @escaping @Sendable (Daemon) throws -> Void
        ) async throws -> (status: Int32?, lines: [String]) {
            try await TestCluster.run(workers: 0, isProxied: true) { cluster in
                cluster.proxy?.freeze()
                var command = Command.opscript()
                command.arguments = words.first == "-e" ? ["--cluster", cluster.url] + words : words + ["--cluster", cluster.url]
                let run = try Daemon(command, readyWhen: nil)
                while cluster.proxy?.connectionCount == 0, !run.hasEnded(within: 0.01) {}
                try body(run)
                return (try run.wait(seconds: 30), run.lines)
            }
        }

        @Test("A server that does not answer is said, and other signals change nothing", arguments: commands)
        func silentServer(words: [String]) async throws {
            let (status, _) = try await waitForSilentServer(words) { run in
                for _ in 0..<20 where !run.hasEnded(within: 0.01) { run.send(SIGWINCH) }
                try run.wait(for: "it has not answered for 5 seconds")
            }
            #expect(status == 1)
        }

        @Test("Ctrl-C ends whoever waits for a server that does not answer", arguments: commands)
        func interruptedConnecting(words: [String]) async throws {
            // A script ends as a script of `lua` does.
            let isScript = words.first == "-e"
            let (status, lines) = try await waitForSilentServer(words) { run in
                run.send(SIGINT)
                if isScript { try run.wait(for: "interrupted!") }
            }
            #expect(status == (isScript ? 1 : 128 + SIGINT) && !lines.contains { $0.contains("no connection") }, "\(lines)")
        }

        @Test("A server without JetStream is refused", arguments: [["worker"], ["-e", script]])
        func noJetStream(words: [String]) async throws {
            let outcome = try await onOwnThread {
                let server = try NatsServer("")
                var command = Command.opscript()
                command.arguments = words.first == "-e" ? ["--cluster", server.url] + words : words + ["--cluster", server.url]
                return try command.run()
            }
            #expect(outcome.status == 1 && outcome.errorText.contains("nats-server --jetstream"), "\(outcome)")
        }

        @Test("Members with different keys do not work for each other, and say so")
        func wrongKey() async throws {
            let directory = try ScratchDirectory()
            let first = try directory.write("a secret of many bytes\n", to: "first")
            let second = try directory.write("another secret, as long\n", to: "second")
            _ = try Command.shell("chmod 600 \"$1\" \"$2\"", first, second).run()
            let (refused, list, run) = try await TestCluster.run(workers: 0) { cluster in
                try cluster.addWorker("--slots", "1", "--key", first)
                let script = """
                    local op = opscript.OperationQueue.new():addOperation(function() return "ran" end)
                    print(op:waitUntilFinished(tonumber(arg[1])), op.result)
                    op:cancel()
                    """
                let refused = [["--key", second], []].map { options in
                    var command = Command.opscript()
                    command.arguments = ["--cluster", cluster.url] + options + ["-", "1"]
                    return command.input(script)
                }
                let list = Command.opscript("workers", "--cluster", cluster.url, "--key", second)
                let run = cluster.command(script, "--key", first, arguments: ["60"])
                return (try refused.map { try $0.run() }, try list.run(), try run.run())
            }
            for outcome in refused {
                #expect(outcome.text == "false\tnil\n" && outcome.errorText.contains("sealed with another key"), "\(outcome)")
            }
            #expect(list.status == 1 && list.errorText.contains("whose key (--key) or version of opscript is another one"), "\(list)")
            #expect(run.text == "true\tran\n" && run.status == 0, "\(run)")
        }

        @Test("A key that others may read, or that is short, is refused")
        func badKey() throws {
            let directory = try ScratchDirectory()
            let open = try directory.write("a secret of many bytes", to: "open"), short = try directory.write("short", to: "short")
            _ = try Command.shell("chmod 644 \"$1\" && chmod 600 \"$2\"", open, short).run()
            for (file, message) in [(open, "may be read by everybody"), (short, "fewer than 16 bytes"), ("/nowhere", "cannot be opened")] {
                let outcome = try Command.opscript("workers", "--cluster", "nats://127.0.0.1:1", "--key", file).run()
                #expect(outcome.status == 1 && outcome.errorText.contains(message), "\(outcome)")
            }
        }

        @Test("Options of workers that are wrong are named")
        func options() throws {
            for (words, message) in [
                (["--slots", "0"], "'--slots' needs a number from 1 to 1000"), (["--name"], "'--name' needs a name"),
                ([], "needs '--cluster'"),
                (["--memory-limit", "much"], "'--memory-limit' needs a size"), (["--what"], "unrecognized option '--what'"),
            ] {
                var command = Command.opscript()
                command.arguments = ["worker"] + (words.isEmpty ? [] : ["--cluster", "nats://127.0.0.1:1"]) + words
                let outcome = try command.run()
                #expect(outcome.status == 1 && outcome.errorText.contains(message), "\(outcome)")
            }
        }
    }
}
