import ClusterSupport
import TestSupport
import Testing

extension ClusterTests {
    /// How members show to the server who they are. Keys and credentials were made for these tests.
    @Suite("Credentials", .serialized) struct Credentials {
        struct Way: Sendable, CustomTestStringConvertible {
            let testDescription: String
            /// Of the server.
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
    }
}
