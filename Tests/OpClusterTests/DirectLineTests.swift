import ClusterSupport
import Glibc
@_spi(Locking) import OpEngine
import TestSupport
import Testing

@testable import OpCluster

/// Lines between a worker and a coordinator, over real sockets.
@Suite(.timeLimit(.minutes(10))) struct DirectLineTests {
    private static let key = RealCluster.key
    private static let keys = [key, nil]

    /// A listener, and the lines that were made to it.
    private final class Place: Sendable {
        let listener: DirectListener
        private let lines = Locked<[DirectLine]>([])
        private let hasLine = AsyncGate()

        init(key: ClusterKey? = DirectLineTests.key) throws {
            let (lines, hasLine) = (lines, hasLine)
            let handlers = DirectListener.Handlers(acceptLine: { worker, session in
                if (worker, session) != (5, 7) { return nil }
                return { line in
                    lines.withLock { $0.append(line) }
                    hasLine.open()
                    // A line is one as long as it is served.
                    while line.receive() != nil {}
                }
            })
            listener = try #require(DirectListener(at: "127.0.0.1", key: key, handlers))
        }

        var count: Int { lines.withLock { $0.count } }

        /// The next line, at this end.
        func line() async -> DirectLine {
            await hasLine.wait()
            return lines.withLock { $0.removeFirst() }
        }
    }

    /// The client's end of a line; nil if it gets none.
    private static func line(to place: DirectPlace, key: ClusterKey? = key, session: UInt64 = 7) async -> DirectLine? {
        await valueGiven { give in
            startThread {
                let connection = DirectConnection(to: place, key: key, for: .line(worker: 5, session: session)) { _ in }
                give(connection.flatMap { $0.isGranted ? DirectLine($0.socket, seals: $0.requests, opens: $0.answers) : nil })
            }
        }
    }

    /// What comes until the line ends.
    private static func all(from line: DirectLine) async -> [[UInt8]] {
        await valueGiven { give in
            startThread {
                var messages: [[UInt8]] = []
                while let message = line.receive() { messages.append(message.bytes) }
                give(messages)
            }
        }
    }

    @Test(arguments: keys) func messagesComeAsTheyAreAndInTheirOrder(_ key: ClusterKey?) async throws {
        let place = try Place(key: key)
        let client = try #require(await Self.line(to: place.listener.place, key: key)), server = await place.line()
        // Fewer bytes than the system takes without a reader.
        let messages = (0..<300).map {
            Message.answer([UInt8](repeating: UInt8(truncatingIfNeeded: $0), count: $0 % 50 == 0 ? 16_000 : $0))
        }
        #expect(messages.allSatisfy { server.send($0) })
        #expect(client.send(.done) && server.sentCount == messages.count && client.sentCount == 1)
        server.end()
        #expect(await Self.all(from: client) == messages.map(\.bytes))
        #expect(!server.send(.done))
    }

    @Test func whoDoesNotKnowTheSecretsGetsNone() async throws {
        let place = try Place(), open = try Place(key: nil)
        let known = place.listener.place
        let other = DirectPlace(address: known.address, port: known.port, token: DirectSecrets.nonce(), machine: known.machine)
        #expect(await Self.line(to: known, key: ClusterKey(Array("another key, no less".utf8))) == nil)
        #expect(await Self.line(to: known, key: nil) == nil)
        #expect(await Self.line(to: other) == nil)
        #expect(await Self.line(to: open.listener.place) == nil)
        #expect(await Self.line(to: known, session: 8) == nil)
        #expect(place.count + open.count == 0)
        #expect(await Self.line(to: known) != nil)
    }

    /// Bytes before the first message: greeting and answer. Then come two with its length.
    private static let precedingCount = 4 + 32 + 17

    /// The second one makes a length that is shorter than the seal; the last one is not reached.
    @Test(arguments: [precedingCount, precedingCount + 1, precedingCount + 2, precedingCount + 20, 1_000_000])
    func aByteThatIsChangedOnTheWayEndsTheLine(_ changed: Int) async throws {
        let handlers = DirectListener.Handlers(acceptLine: { _, _ in
            { line in
                for _ in 0..<10 { _ = line.send(.answer([1, 2, 3])) }
                line.end()
            }
        })
        let listener = try #require(DirectListener(at: "127.0.0.1", key: Self.key, handlers))
        let relay = try Relay(to: listener.place) { sent, bytes in
            var bytes = bytes
            if (sent..<sent + bytes.count).contains(changed) { bytes[changed - sent] ^= 20 }
            return bytes
        }
        // On one thread, because the relay does not wait for long.
        let messages = await valueGiven { give in
            TestSupport.startThread {
                let connection = DirectConnection(to: relay.place, key: Self.key, for: .line(worker: 5, session: 7)) { _ in }
                let line = connection.map { DirectLine($0.socket, seals: $0.requests, opens: $0.answers) }
                var messages: [[UInt8]]? = line.map { _ in [] }
                while let message = line?.receive() { messages?.append(message.bytes) }
                give(messages)
            }
        }
        #expect(messages == Array(repeating: Message.answer([1, 2, 3]).bytes, count: changed == 1_000_000 ? 10 : 0))
        withExtendedLifetime(listener) {}
    }

    @Test func aPeerThatDoesNotReadHoldsUpNobody() async throws {
        let place = try Place()
        let client = try #require(await Self.line(to: place.listener.place)), server = await place.line()
        let message = Message.answer([UInt8](repeating: 1, count: 10_000))
        #expect(!server.send(.answer([UInt8](repeating: 1, count: 20_000))))
        var sent = 0
        while server.send(message), sent < 10_000 { sent += 1 }
        #expect(sent > 1 && sent < 10_000)
        // When it reads, there is room again, and what was left of a message comes first.
        let come = Locked(0), count = sent
        TestSupport.startThread {
            while let next = client.receive() { come.withLock { $0 += next.bytes == message.bytes ? 1 : 1_000_000 } }
        }
        while come.withLock({ $0 <= count }) {
            _ = server.send(message)
            await Task.yield()
        }
        #expect(come.withLock { $0 } <= server.sentCount)
        server.end()
    }

    @Test func thereAreOnlySoMany() async throws {
        let place = try Place()
        var lines: [DirectLine] = []
        while let line = await Self.line(to: place.listener.place), lines.count < 200 { lines.append(line) }
        #expect(lines.count == 64 && place.listener.lineCount == 64)
        // They take nothing from the connections for blobs.
        let blob = Blob(copying: [1]), transfer = DirectTransfer(name: blob.name, place: place.listener.place, key: Self.key)
        guard case .missing = await valueGiven({ give in startThread { give(transfer.run { _ in }) } }) else { throw Failure() }
        for line in lines { line.end() }
        while place.listener.lineCount > 0 { await Task.yield() }
        #expect(await Self.line(to: place.listener.place) != nil)
        place.listener.close()
    }

    // MARK: members

    /// The coordinator's ends of its lines.
    private func lines(of cluster: RealCluster) -> [DirectLine] {
        cluster.coordinator.state.withLock { $0.peers.values.compactMap(\.line) }
    }

    @Test func shortTasksPassByALine() async throws {
        let server = try NatsServer()
        let cluster = try await RealCluster(server.url)
        defer { cluster.close() }
        let worker = try await cluster.addWorker(server.url)
        // The first one that is assigned has it made.
        while lines(of: cluster).first.map({ $0.sentCount < 20 }) ?? true {
            let outcome = await cluster.run([1])
            #expect(outcome.payload?.bytes == [1], "\(outcome), \(cluster.notices)")
        }
        #expect(cluster.coordinator.exchange.direct.listener?.lineCount == 1)
        #expect(worker.exchange.direct.listener == nil && cluster.notices == [])
    }

    @Test(arguments: [(true, false), (false, true)])
    func whoDoesNotWantLinesHasNone(_ coordinatorAllows: Bool, _ workerAllows: Bool) async throws {
        let server = try NatsServer()
        let cluster = try await RealCluster(server.url, allowsDirect: coordinatorAllows)
        defer { cluster.close() }
        try await cluster.addWorker(server.url, allowsDirect: workerAllows)
        while cluster.coordinator.state.withLock({ $0.peers.values.map(\.lastAssignment).max() ?? 0 }) < 20 {
            #expect(await cluster.run([1]).payload?.bytes == [1])
        }
        #expect(cluster.coordinator.exchange.direct.listener == nil)
    }

    /// Each line that ends soon is made again later than the one before, so only few are ended here.
    @Test func linesMayEndAtAnyMoment() async throws {
        let server = try NatsServer()
        let cluster = try await RealCluster(server.url)
        defer { cluster.close() }
        for _ in 0..<2 { try await cluster.addWorker(server.url) }
        let ended = Locked(0)
        await withTaskGroup(of: Void.self) { group in
            for chain in 0..<4 as Range<UInt8> {
                group.addTask {
                    var number: UInt8 = 0
                    while ended.withLock({ $0 < 3 }) || number < 100 {
                        // Some are too large for a line.
                        let bytes = [chain, number] + [UInt8](repeating: 7, count: number % 7 == 0 ? 20_000 : 0)
                        let outcome = await cluster.run(bytes)
                        #expect(outcome.payload?.bytes == bytes, "\(cluster.notices)")
                        number &+= 1
                        // Each line has had something to lose.
                        guard number % 20 == 0, let line = lines(of: cluster).randomElement(), line.sentCount > 20 else { continue }
                        line.end()
                        ended.withLock { $0 += 1 }
                    }
                }
            }
        }
        #expect(cluster.notices == [])
    }

    private struct Failure: Error {}
}
