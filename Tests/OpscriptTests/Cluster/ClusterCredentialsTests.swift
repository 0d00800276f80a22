import ClusterSupport
import TestSupport
import Testing

extension ClusterTests {
    /// The ways in which members identify themselves to the server. Keys and credentials were made for these tests.
    @Suite("Credentials", .serialized) struct Credentials {
        struct Way: Sendable, CustomTestStringConvertible {
            let testDescription: String
            /// The configuration of the server.
            let settings: String
            let options: [String]
            var environment: [String: String] = [:]
        }

        private static let folder = Paths.package + "/Tests/OpscriptTests/Credentials"
        private static let jetStream = "jetstream { store_dir: \"DIRECTORY\" }"

        private static let ways = [
            Way(testDescription: "credentials", settings: contents(of: "server.conf"), options: ["--creds", "\(folder)/user.creds"]),
            Way(
                testDescription: "an nkey",
                settings: """
                    \(jetStream)
                    authorization { users: [ { nkey: UC3V345KHY357XNPUDRTX3MY7BBSNDCKIIR3WR3IYAE567AOZUGJ4JMH } ] }
                    """,
                options: ["--nkey", "\(folder)/user.nk"]),
            Way(
                testDescription: "a password",
                settings: "\(jetStream)\nauthorization { user: worker, password: \"a password\" }", options: [],
                environment: ["OPSCRIPT_CLUSTER_USER": "worker", "OPSCRIPT_CLUSTER_PASSWORD": "a password"]),
        ]

        private static func contents(of name: String) -> String { (try? Command.shell("cat \"$1\"", "\(folder)/\(name)").run().text) ?? "" }

        @Test("A signature that libnats does not send, because it begins with a zero, is made again")
        func unsentSignature() async throws {
            let (outcome, words) = try await onOwnThread {
                let server = try NonceServer(["wTAOaG8C18isAC0", "another", "a third one"])
                var command = Command.opscript()
                command.arguments = ["workers", "--cluster", server.url, "--nkey", "\(Self.folder)/user.nk"]
                return (try command.run(), server.words)
            }
            #expect(outcome.status == 1 && outcome.errorText.contains("Authorization Violation"), "\(outcome)")
            #expect(words.map { $0.contains("\"sig\":") } == [false, true, true], "\(words)")
        }

        @Test("Members that the server knows work together, and others are refused", arguments: ways)
        func known(way: Way) async throws {
            let outcomes = try await onOwnThread {
                let server = try NatsServer(way.settings)
                func command(_ words: String...) -> Command {
                    var command = Command.opscript()
                    command.arguments = words
                    return command
                }
                var worker = command("worker", "--cluster", server.url, "--name", "w1").environment(way.environment)
                worker.arguments += way.options
                let daemon = try Daemon(worker, readyWhen: "at once")
                defer { daemon.kill() }
                var script = command("--cluster", server.url).environment(way.environment)
                script.arguments += way.options + ["-"]
                let text = """
                    local op = opscript.OperationQueue.new():addOperation(function() return 6 * 7 end)
                    op:waitUntilFinished()
                    print(op.result, op.error)
                    """
                return (known: try script.input(text).run(), unknown: try command("worker", "--cluster", server.url).run())
            }
            #expect(outcomes.known.text == "42\tnil\n", "\(outcomes.known)")
            #expect(outcomes.unknown.status == 1 && outcomes.unknown.errorText.contains("Authorization Violation"), "\(outcomes.unknown)")
        }

        /// A user for each role, with the permissions that the role needs.
        private static let roles = """
            \(jetStream)
            authorization { users: [
              { user: coordinator, password: p, permissions: {
                publish: ["opscript.job.>", "opscript.worker.>", "opscript.beat", "opscript.find", "$JS.API.>", "_INBOX.>"]
                subscribe: ["opscript.run.*", "opscript.hello", "_INBOX.>"] } }
              { user: worker, password: p, permissions: {
                publish: ["opscript.run.*", "opscript.hello", "$JS.API.>", "$JS.ACK.>", "_INBOX.>"]
                subscribe: ["opscript.worker.>", "opscript.beat", "opscript.find", "_INBOX.>"] } }
              { user: observer, password: p, permissions: { publish: ["opscript.find"], subscribe: ["opscript.hello"] } }
            ] }
            """

        @Test(
            "A member whose user is for another role is refused when it starts",
            arguments: [("script", "worker"), ("script", "observer"), ("worker", "coordinator"), ("worker", "observer")])
        func otherRole(member: String, user: String) async throws {
            let outcome = try await onOwnThread {
                let server = try NatsServer(Self.roles)
                var command = Command.opscript().environment(["OPSCRIPT_CLUSTER_USER": user, "OPSCRIPT_CLUSTER_PASSWORD": "p"])
                let text = "opscript.OperationQueue.new():addOperation(print)"
                command.arguments = member == "worker" ? ["worker", "--cluster", server.url] : ["--cluster", server.url, "-e", text]
                return try command.run()
            }
            let needed = "needs a user that may do what \(member == "worker" ? "workers" : "coordinators") do"
            #expect(outcome.status == 1 && outcome.errorText.contains("Permissions Violation for "), "\(outcome)")
            #expect(outcome.errorText.split(separator: "\n").count { $0.contains(needed) } == 1, "\(outcome)")
        }
    }
}
