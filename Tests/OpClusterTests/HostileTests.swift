import ClusterSupport
import Glibc
import TestSupport
import Testing

@testable import OpCluster

/// Messages from members without the key, and messages that arrive twice or damaged.
@Suite struct HostileTests {
    /// Collects every message that a server passes on.
    private final class Recorder: Sendable {
        let messages = Locked<[(subject: String, reply: String, bytes: [UInt8])]>([])

        func record(_ cluster: SimulatedCluster) {
            cluster.server.trace = { [messages] _, isForServer, subject, reply, bytes, _ in
                if isForServer, !subject.hasPrefix("$") { messages.withLock { $0.append((subject, reply, bytes)) } }
            }
        }
    }

    private final class Nobody: FabricReceiver {
        func receive(_ message: IncomingMessage) {}
        func connectionHasChanged(_ change: ConnectionChange) {}
    }

    /// A cluster that has run tasks of each kind, and runs three more.
    private func busyCluster(_ recorder: Recorder) -> SimulatedCluster {
        let cluster = SimulatedCluster(seed: 5)
        recorder.record(cluster)
        cluster.simulation.run(until: 0.5)
        cluster.addWorker(slots: 2)
        cluster.addWorker(slots: 2)
        var body = Body(seconds: 0.1)
        (body.resultCount, body.argumentCount, body.outputCount) = (100, 100, 2)
        for number in 0..<10 { cluster.submit(body, isAtMostOnce: number % 2 == 0) }
        cluster.simulation.run(until: 5)
        body.seconds = 0.01
        cluster.submitChain(of: 10, body)
        cluster.simulation.run(until: 6)
        body.seconds = 1000
        for number in 0..<3 { cluster.submit(body, isAtMostOnce: number % 2 == 0) }
        cluster.simulation.run(until: 7)
        return cluster
    }

    /// Sends messages to a cluster while it works, and expects that they change nothing.
    private func attack(_ change: (inout (subject: String, reply: String, bytes: [UInt8]), inout SeededGenerator) -> Void) throws {
        let recorder = Recorder()
        let cluster = busyCluster(recorder)
        defer { cluster.end() }
        let begins = cluster.known.values.reduce(0) { $0 + $1.begins.count }
        let outcomes = cluster.known.values.reduce(0) { $0 + $1.outcomes.count }
        let messages = recorder.messages.withLock { $0 }
        cluster.server.trace = nil
        let fabric = SimulatedFabric("attacker", cluster.simulation, cluster.server, delay: 0.001...0.002)
        let nobody = Nobody()
        try fabric.start([], nobody)
        var generator = SeededGenerator(seed: 9)
        for _ in 0..<3 {
            for var message in messages {
                change(&message, &generator)
                let reply = Bool.random(using: &generator) ? "_INBOX.attacker.1" : message.reply.isEmpty ? nil : message.reply
                fabric.publish(OutgoingMessage(subject: message.subject, reply: reply, id: nil, bytes: message.bytes))
            }
        }
        cluster.simulation.run(until: 60)
        #expect(cluster.failures == [])
        #expect(cluster.known.values.reduce(0) { $0 + $1.begins.count } == begins)
        #expect(cluster.known.values.reduce(0) { $0 + $1.outcomes.count } == outcomes)
        #expect(cluster.members.reduce(0) { $0 + $1.runner.running.count } == 3)
        // The cluster still works.
        cluster.submit(Body(seconds: 0.1))
        cluster.simulation.run(until: 80)
        #expect(cluster.known[24]?.outcomes == ["done 24"])
    }

    @Test func repeatedMessagesDoNothing() throws { try attack { _, _ in } }

    @Test func messagesOnOtherSubjectsDoNothing() throws {
        let recorder = Recorder()
        busyCluster(recorder).end()
        let subjects = recorder.messages.withLock { $0.map(\.subject) }
        try attack { message, generator in message.subject = subjects.randomElement(using: &generator) ?? "x" }
    }

    @Test func damagedMessagesDoNothing() throws {
        try attack { message, generator in
            if message.bytes.isEmpty { return }
            if Bool.random(using: &generator) {
                message.bytes.removeLast(Int.random(in: 1...message.bytes.count, using: &generator))
            } else {
                message.bytes[Int.random(in: 0..<message.bytes.count, using: &generator)] ^= UInt8.random(in: 1...255, using: &generator)
            }
        }
    }

    @Test func garbageDoesNothing() throws {
        try attack { message, generator in
            message.bytes = (0..<Int.random(in: 0...100, using: &generator)).map { _ in UInt8.random(in: 0...255, using: &generator) }
        }
    }

    @Test func messagesSealedWithAnotherKeyDoNothing() throws {
        let (own, other) = (Seal(key: SimulatedCluster.key), Seal(key: ClusterKey(Array("another key of bytes".utf8))))
        try attack { message, _ in
            if case .message(let opened) = own.open(message.bytes, from: message.subject, reply: message.reply) {
                message.bytes = other.seal(Array(opened), for: message.subject, reply: message.reply)
            }
        }
    }

    // MARK: large values

    /// Announces a blob, and sends its first pieces only.
    private final class Announcer: FabricReceiver {
        let fabric: SimulatedFabric
        private let end: Int
        private let seal = Seal(key: SimulatedCluster.key)

        init(_ fabric: SimulatedFabric, sends end: Int) { (self.fabric, self.end) = (fabric, end) }

        func receive(_ message: IncomingMessage) {
            guard case .message(let opened) = seal.open(message.bytes, from: message.subject, reply: message.reply),
                case .want(_, let offset, let count)? = try? Message(opened), offset < end
            else { return }
            let piece = Message.piece(offset: offset, [UInt8](repeating: 1, count: count))
            fabric.publish(OutgoingMessage(subject: message.reply, bytes: seal.seal(piece.bytes, for: message.reply, reply: "")))
        }

        func connectionHasChanged(_ change: ConnectionChange) {}
    }

    /// The bytes on the disk of each file of `count` bytes that this process has open.
    private func diskUse(ofFilesOf count: Int) -> [Int] {
        (0..<1024 as Range<Int32>).compactMap { descriptor in
            var status = stat()
            return fstat(descriptor, &status) == 0 && status.st_size == count ? Int(status.st_blocks) * 512 : nil
        }
    }

    @Test(arguments: [0, 2 << 20]) func whatIsAnnouncedTakesNoRoomBeforeItComes(_ sent: Int) throws {
        let count = (1 << 30) + sent
        let simulation = Simulation(seed: 1)
        let server = SimulatedServer(simulation)
        let attacker = Announcer(SimulatedFabric("attacker", simulation, server, delay: 0.001...0.002), sends: sent)
        try attacker.fabric.start(["opscript.run.x"], attacker)
        let fabric = SimulatedFabric("worker", simulation, server, delay: 0.001...0.002)
        let exchange = Exchange(fabric, key: SimulatedCluster.key, version: "1", keptBytes: 0)
        defer {
            exchange.close(waiting: 0)
            for fabric in [attacker.fabric, fabric] { fabric.forget() }
            simulation.end()
        }
        let handler = NoHandler()
        try exchange.start([], handler)
        let hasFailed = Locked(false)
        exchange.fetch([BlobName(digest: [UInt8](repeating: 7, count: BlobName.digestCount), count: count)], from: "opscript.run.x") {
            blobs in
            hasFailed.withLock { $0 = blobs == nil }
        }
        simulation.run(until: 1)
        // The file system needs some more blocks for the file.
        let use = diskUse(ofFilesOf: count)
        #expect(sent == 0 ? use == [] : use.count == 1 && use[0] < 2 * sent, "\(use)")
        simulation.run(until: 60)
        #expect(hasFailed.withLock { $0 })
        #expect(diskUse(ofFilesOf: count) == [])
    }

    private final class NoHandler: Exchange.Handler {
        func handle(_ message: Message, on subject: String, replyTo reply: String) {}
        func handle(unsealed message: IncomingMessage) {}
        func connectionHasChanged(_ change: ConnectionChange) {}
        func handleForeign(_ difference: Exchange.Unopened, on subject: String) {}
    }

    // MARK: without a key

    /// Without a key, any client that may publish may do much, but members must not crash.
    @Test func damagedMessagesAreReadWithoutACrash() throws {
        let recorder = Recorder()
        busyCluster(recorder).end()
        let seal = Seal(key: SimulatedCluster.key)
        var generator = SeededGenerator(seed: 3)
        var kinds: Set<UInt8> = []
        for message in recorder.messages.withLock({ $0 }) {
            guard case .message(let opened) = seal.open(message.bytes, from: message.subject, reply: message.reply), let kind = opened.first
            else { continue }
            let whole = try Message(opened)
            #expect(whole.bytes == Array(opened))
            kinds.insert(kind)
            for count in 0..<min(opened.count, 300) { _ = try? Message(opened.prefix(count)) }
            for _ in 0..<50 {
                var damaged = Array(opened)
                damaged[Int.random(in: 0..<damaged.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
                _ = try? Message(damaged[...])
            }
        }
        // Jobs, reports, confirmations, releases, hellos, beats, greetings, claims, pieces and more were among them.
        #expect(kinds.isSuperset(of: [1, 2, 3, 5, 8, 9, 10, 11, 13, 14, 15, 16, 21]), "\(kinds)")
    }
}
