import ClusterSupport
import Glibc
import TestSupport
import Testing

@testable import OpCluster

/// Blobs that pass from member to member, over real sockets.
@Suite(.timeLimit(.minutes(2))) struct DirectTests {
    private static let key = ClusterKey(Array("the key of the tests".utf8))
    private static let keys = [key, nil]

    /// Some records, and a part of one.
    private static func blob(count: Int = 3_000_001) -> Blob {
        var bytes = [UInt8](repeating: 3, count: count)
        for index in stride(from: 0, to: count, by: 1009) { bytes[index] = UInt8(truncatingIfNeeded: index) }
        return Blob(copying: bytes)
    }

    private static func listener(_ blob: Blob?, key: ClusterKey? = key) throws -> DirectListener {
        try #require(DirectListener(at: "127.0.0.1", key: key, .init(find: { name in name == blob?.name ? blob : nil })))
    }

    /// What comes of a transfer, on a thread that may wait for it.
    private static func fetch(
        _ name: BlobName, from place: DirectPlace, key: ClusterKey? = key
    ) async -> DirectTransfer.Outcome {
        await valueGiven { give in startThread { give(DirectTransfer(name: name, place: place, key: key).run { _ in }) } }
    }

    private static func changed(_ place: DirectPlace, port: Int? = nil, token: [UInt8]? = nil, machine: String? = nil) -> DirectPlace {
        DirectPlace(address: place.address, port: port ?? place.port, token: token ?? place.token, machine: machine ?? place.machine)
    }

    @Test(arguments: keys) func aBlobComesAsItIs(_ key: ClusterKey?) async throws {
        let blob = Self.blob()
        let listener = try Self.listener(blob, key: key)
        for count in 1...3 {
            let outcome = await Self.fetch(blob.name, from: listener.place, key: key)
            #expect(outcome.bytes == blob.piece(at: 0, count: .max), "\(outcome)")
            #expect(listener.sentCount == count)
        }
    }

    @Test func aLargeBlobComesIntoAFile() async throws {
        let blob = Self.blob(count: BlobMemory.fewestFileBytes + 5)
        let listener = try Self.listener(blob)
        let outcome = await Self.fetch(blob.name, from: listener.place)
        guard case .blob(let come) = outcome else { throw Failure("\(outcome)") }
        #expect(Blob.digest(of: come.bytes) == blob.name.digest)
    }

    @Test func whoDoesNotKnowTheSecretsGetsNothing() async throws {
        let blob = Self.blob()
        let listener = try Self.listener(blob)
        let other = ClusterKey(Array("another key, no less".utf8))
        for key in [other, nil] {
            #expect(await Self.fetch(blob.name, from: listener.place, key: key).isFailure)
        }
        #expect(await Self.fetch(blob.name, from: Self.changed(listener.place, token: DirectSecrets.nonce())).isFailure)
        let open = try Self.listener(blob, key: nil)
        #expect(await Self.fetch(blob.name, from: open.place, key: Self.key).isFailure)
        #expect(await Self.fetch(blob.name, from: Self.changed(open.place, token: DirectSecrets.nonce()), key: nil).isFailure)
        #expect(listener.sentCount + open.sentCount == 0)
        // It still works.
        #expect(await Self.fetch(blob.name, from: listener.place).bytes != nil)
    }

    @Test func whatIsNotThereIsMissing() async throws {
        let listener = try Self.listener(nil)
        guard case .missing = await Self.fetch(Self.blob().name, from: listener.place) else { throw Failure("it is not missing") }
    }

    @Test func nobodyListensAtAClosedPort() async throws {
        let listener = try Self.listener(nil)
        listener.close()
        #expect(await Self.fetch(Self.blob().name, from: listener.place).isFailure)
    }

    @Test func withoutAKeyOnlyTheSameMachineIsReached() throws {
        let place = try Self.listener(nil).place
        #expect(place.isUsable(hasKey: false) && place.isUsable(hasKey: true))
        #expect(!Self.changed(place, machine: "another").isUsable(hasKey: true))
        let far = DirectPlace(address: "192.0.2.1", port: 1, token: place.token, machine: "another")
        #expect(far.isUsable(hasKey: true) && !far.isUsable(hasKey: false))
        #expect(DirectListener(at: "0.0.0.0", key: nil, .init()) == nil)
        #expect(DirectListener(at: "no address", key: Self.key, .init()) == nil)
    }

    // MARK: bad listeners

    @Test(arguments: keys) func otherBytesAreNotTaken(_ key: ClusterKey?) async throws {
        let name = Self.blob().name
        let other = try #require(BlobMemory(count: name.count))
        for index in other.bytes.indices { other.bytes[index] = 9 }
        let listener = try Self.listener(Blob(other, name), key: key)
        #expect(await Self.fetch(name, from: listener.place, key: key).isFailure)
        #expect(listener.sentCount == 1)
    }

    /// How many bytes precede the blob: greeting and answer.
    private static let precedingCount = 4 + 32 + 17

    @Test(arguments: keys, [10, precedingCount, precedingCount + 1_000_000])
    func aListenerMayDieInTheMiddle(_ key: ClusterKey?, _ count: Int) async throws {
        let blob = Self.blob()
        let listener = try Self.listener(blob, key: key)
        let whole = try Relay(to: listener.place) { _, bytes in bytes }
        #expect(await Self.fetch(blob.name, from: whole.place, key: key).bytes != nil)
        let part = try Relay(to: listener.place) { sent, bytes in sent + bytes.count <= count ? bytes : nil }
        #expect(await Self.fetch(blob.name, from: part.place, key: key).isFailure)
    }

    @Test(arguments: keys, [0, 20, precedingCount - 1, precedingCount + 100, precedingCount + 2_000_000])
    func aByteThatIsChangedOnTheWayIsNoticed(_ key: ClusterKey?, _ place: Int) async throws {
        let blob = Self.blob()
        let listener = try Self.listener(blob, key: key)
        let relay = try Relay(to: listener.place) { sent, bytes in
            var bytes = bytes
            if (sent..<sent + bytes.count).contains(place) { bytes[place - sent] ^= 1 }
            return bytes
        }
        #expect(await Self.fetch(blob.name, from: relay.place, key: key).isFailure)
    }

    // MARK: bad clients

    @Test func aHostileClientHarmsNobody() async throws {
        let blob = Self.blob(count: 60_000_000)
        let listener = try Self.listener(blob)
        var connections: [DirectSocket] = []
        func connect() -> DirectSocket? { DirectSocket.connected(to: listener.place, within: 5, patience: 5) }
        var generator = SeededGenerator(seed: 3)
        for count in [0, 1, 32, 73, 500] {
            let connection = try #require(connect())
            #expect(connection.send((0..<count).map { _ in .random(in: .min ... .max, using: &generator) }))
            connections.append(connection)
        }
        // Wants the blob, and never reads it.
        let greedy = try #require(connect())
        let greeting = try #require(greedy.receive(36)), nonce = DirectSecrets.nonce()
        let secrets = [listener.place.token, Array(greeting.dropFirst(4)), nonce]
        let request = try #require(DirectSecrets.requests(Self.key, secrets, seals: true)?.seal(DirectRequest.blob(blob.name).bytes))
        #expect(greedy.send(nonce + request))
        // Say nothing.
        for _ in 0..<100 { connections.append(try #require(connect())) }
        #expect(await Self.fetch(blob.name, from: listener.place).bytes?.count == blob.name.count)
        // There are no more connections than there may be.
        var isRefused = false
        while !isRefused, connections.count < 500 {
            let connection = try #require(connect())
            isRefused = connection.receive(36) == nil
            connections.append(connection)
        }
        #expect(isRefused && listener.connectionCount <= 128 && connections.count > 120)
        listener.close()
    }

    // MARK: members

    @Test(arguments: [(true, true), (true, false), (false, true)])
    func membersSendEachOtherLargeBlobs(_ coordinatorAllows: Bool, _ workerAllows: Bool) async throws {
        let server = try NatsServer()
        let cluster = try await RealCluster(server.url, allowsDirect: coordinatorAllows)
        defer { cluster.close() }
        let worker = try await cluster.addWorker(server.url, allowsDirect: workerAllows, runner: Self.reverser)
        let blob = Self.blob()
        let outcome = await cluster.run([], contents: [blob])
        #expect(outcome.payload?.contents.first?.piece(at: 0, count: .max) == Array(blob.bytes.reversed()), "\(outcome)")
        let count = coordinatorAllows && workerAllows ? 1 : nil
        #expect(cluster.coordinator.exchange.direct.listener?.sentCount == count)
        #expect(worker.exchange.direct.listener?.sentCount == count)
    }

    /// Sends back other bytes than have come.
    private static let reverser = ClosureRunner { task in
        startThread { task.end(Payload(bytes: [], contents: [Blob(copying: Array(task.blobs[0].bytes.reversed()))])) }
    }

    @Test func smallBlobsNeedNoPort() async throws {
        let server = try NatsServer()
        let cluster = try await RealCluster(server.url)
        defer { cluster.close() }
        try await cluster.addWorker(server.url)
        let outcome = await cluster.run([], contents: [Self.blob(count: 900_000)])
        #expect(outcome.payload?.contents.first?.name.count == 900_000)
        #expect(cluster.coordinator.exchange.direct.listener == nil)
    }

    enum Fault: CaseIterable, Sendable { case closed, missing, otherBytes, occupied }

    @Test(arguments: Fault.allCases) func theServerIsTheWayWhenTheDirectOneFails(_ fault: Fault) async throws {
        let server = try NatsServer()
        let cluster = try await RealCluster(server.url)
        defer { cluster.close() }
        let direct = cluster.coordinator.exchange.direct
        let find: @Sendable (BlobName) -> Blob? = { name in
            fault == .otherBytes ? BlobMemory(count: name.count).map { Blob($0, name) } : nil
        }
        _ = direct.place(at: "127.0.0.1", .init(find: find))
        if fault == .closed { direct.listener?.close() }
        // Others have all the connections, and say nothing.
        let place = try #require(direct.listener?.place)
        let others = (0..<(fault == .occupied ? 128 : 0)).map { _ in DirectSocket.connected(to: place, within: 5, patience: 5) }
        for other in others { #expect(other?.receive(36) != nil) }
        try await cluster.addWorker(server.url)
        for count in [2_000_000, 3_000_000] {
            let blob = Self.blob(count: count)
            let outcome = await cluster.run([], contents: [blob])
            #expect(outcome.payload?.contents.first?.piece(at: 0, count: .max) == Array(blob.bytes), "\(outcome)")
        }
        #expect(cluster.notices == [])
        withExtendedLifetime(others) {}
    }

    @Test func membersThatSendNothingHoldUpTheirOwnBlobsOnly() async throws {
        let blob = Self.blob()
        let listener = try Self.listener(blob)
        let direct = DirectConnections(key: Self.key)
        // Their connections are made, and nobody greets.
        let silent = try (0..<4).map { _ in try #require(DirectSocket.listening(at: "127.0.0.1")) }
        for (_, port) in silent { direct.fetch(blob.name, from: Self.changed(listener.place, port: port)) { _ in } }
        let found = await valueGiven { give in
            direct.fetch(blob.name, from: listener.place, completion: give)
            direct.withdraw(blob.name, from: listener.place)
        }
        #expect(found == nil)
        // The next one does not wait.
        #expect(await valueGiven { give in direct.fetch(blob.name, from: listener.place, completion: give) } == nil)
        direct.close()
        withExtendedLifetime(silent) {}
    }

    private struct Failure: Error {
        let text: String
        init(_ text: String) { self.text = text }
    }
}

extension DirectTransfer.Outcome {
    fileprivate var bytes: [UInt8]? { if case .blob(let blob) = self { Array(blob.bytes) } else { nil } }
    fileprivate var isFailure: Bool { if case .failed = self { true } else { false } }
}

/// Stands between a client and a listener, for one connection.
final class Relay: Sendable {
    let place: DirectPlace
    private let socket: DirectSocket

    /// - Parameter change: what to pass on instead of bytes that come after so many others; nil to end the connection.
    init(to listener: DirectPlace, _ change: @escaping @Sendable (Int, [UInt8]) -> [UInt8]?) throws {
        let (socket, port) = try #require(DirectSocket.listening(at: "127.0.0.1"))
        self.socket = socket
        place = DirectPlace(address: "127.0.0.1", port: port, token: listener.token, machine: listener.machine)
        startThread {
            guard let client = socket.accept(patience: 10), let server = DirectSocket.connected(to: listener, within: 5, patience: 10)
            else { return }
            // The request passes as it is; the client sends nothing else.
            startThread { if let request = client.receive(32 + 16 + DirectRequest.count) { _ = server.send(request) } }
            var sent = 0, bytes = [UInt8](repeating: 0, count: 64 << 10)
            while true {
                let count = recv(server.descriptor, &bytes, bytes.count, 0)
                guard count > 0, let passed = change(sent, Array(bytes.prefix(count))), client.send(passed) else { break }
                sent += count
            }
            client.end()
            server.end()
        }
    }

    deinit { socket.end() }
}
