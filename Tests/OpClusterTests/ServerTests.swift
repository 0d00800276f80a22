import ClusterSupport
import Glibc
import TestSupport
import Testing

@testable import OpCluster

/// Members that use real servers.
@Suite(.timeLimit(.minutes(10))) struct ServerTests {
    @Test func aTaskComesBackWithItsOutcome() async throws {
        let server = try NatsServer()
        let cluster = try await RealCluster(server.url)
        defer { cluster.close() }
        try await cluster.addWorker(server.url)
        for number in 0..<20 {
            let outcome = await cluster.run([UInt8(number)], isAtMostOnce: number % 2 == 0)
            #expect(outcome.payload?.bytes == [UInt8(number)], "\(outcome), \(cluster.notices)")
        }
    }

    @Test func aHundredMegabytesGoThereAndBack() async throws {
        let server = try NatsServer()
        let cluster = try await RealCluster(server.url)
        defer { cluster.close() }
        try await cluster.addWorker(
            server.url,
            runner: ClosureRunner { task in
                // The body returns other bytes than it has received.
                startThread {
                    var bytes = task.blobs[0].piece(at: 0, count: task.blobs[0].name.count)
                    bytes[5] = 5
                    task.finish(Payload(bytes: [1], contents: [Blob(copying: bytes)]))
                }
            })
        var bytes = [UInt8](repeating: 0, count: 100 << 20)
        for index in stride(from: 0, to: bytes.count, by: 409_900) { bytes[index] = UInt8(truncatingIfNeeded: index) }
        let outcome = await cluster.run([], contents: [Blob(copying: bytes)])
        let blob = try #require(outcome.payload?.contents.first, "\(outcome), \(cluster.notices)")
        bytes[5] = 5
        #expect(blob.piece(at: 0, count: blob.name.count) == bytes)
    }

    @Test func aServerMayDieAndComeBack() async throws {
        let server = try NatsServer()
        let cluster = try await RealCluster(server.url)
        defer { cluster.close() }
        let begins = Locked<[UInt8: Int]>([:])
        // The first bodies end while the server is away.
        let held = Locked<[WorkerTask]?>([])
        let hasBegun = AsyncGate()
        for _ in 0..<2 {
            try await cluster.addWorker(
                server.url,
                runner: ClosureRunner { task in
                    begins.withLock { $0[task.bytes[0], default: 0] += 1 }
                    let isHeld = held.withLock { held in
                        held?.append(task)
                        return held != nil
                    }
                    if isHeld { hasBegun.open() } else { task.finish(Payload(bytes: task.bytes)) }
                })
        }
        await withTaskGroup(of: (UInt8, Coordinator.Outcome).self) { group in
            for number in 0..<100 as Range<UInt8> {
                group.addTask { (number, await cluster.run([number], isAtMostOnce: number % 2 == 0)) }
            }
            await hasBegun.wait()
            server.end()
            let tasks = held.withLock { held in
                defer { held = nil }
                return held ?? []
            }
            for task in tasks { task.finish(Payload(bytes: task.bytes)) }
            do { try server.start() } catch { Issue.record(error) }
            var count = 0
            for await (number, outcome) in group {
                #expect(outcome.payload?.bytes == [number], "\(outcome), \(cluster.notices)")
                count += 1
                if count == 50 {
                    server.end()
                    do { try server.start() } catch { Issue.record(error) }
                }
            }
        }
        for (number, count) in begins.withLock({ $0 }) where number % 2 == 0 { #expect(count == 1) }
    }

    @Test func oneOfThreeServersMayDie() async throws {
        let servers = try await threeServers()
        let urls = servers.map(\.url).joined(separator: ",")
        let cluster = try await RealCluster(urls)
        defer { cluster.close() }
        for _ in 0..<2 { try await cluster.addWorker(urls) }
        for number in 0..<60 as Range<UInt8> {
            let outcome = await cluster.run([number])
            #expect(outcome.payload?.bytes == [number], "\(outcome), \(cluster.notices)")
            if number == 20 { servers[0].end() }
            if number == 40 { try servers[0].start() }
        }
    }

    /// Three servers that have agreed on a leader.
    private func threeServers() async throws -> [NatsServer] {
        let ports = (0..<3).map { _ in freePort() }
        let routes = ports.map { "nats://127.0.0.1:\($0)" }.joined(separator: ", ")
        let servers = Locked<[NatsServer]>([])
        // The first one waits for others before it is ready.
        await withTaskGroup(of: Void.self) { group in
            for (index, port) in ports.enumerated() {
                group.addTask {
                    do {
                        let server = try NatsServer(
                            """
                            server_name: s\(index)
                            jetstream { store_dir: "DIRECTORY" }
                            cluster { name: c, host: 127.0.0.1, port: \(port), routes: [\(routes)] }
                            """)
                        servers.withLock { $0.append(server) }
                    } catch { Issue.record(error) }
                }
            }
        }
        return servers.withLock { $0 }
    }

    /// libnats writes to sockets on these threads, and a lost connection must not end the process. Unlike them, the threads that libnats makes when
    /// it is loaded also block faults.
    @Test("The threads of a connection receive no SIGPIPE")
    func threadsOfAConnectionReceiveNoPipeSignal() async {
        await #expect(processExitsWith: .success) {
            final class Receiver: FabricReceiver {
                func receive(_ message: IncomingMessage) {}
                func connectionHasChanged(_ change: ConnectionChange) {}
            }
            let server = try NatsServer(), receiver = Receiver()
            let fabric = NatsFabric(NatsFabric.Settings(url: server.url))
            do { try fabric.start([], receiver) } catch { Issue.record("\(error); the server says: \(server.text)") }
            // The kernel may leave a thread out of a list that is read while another thread ends.
            let isThere = (0..<100).contains { _ in
                blockedSignals().contains { $0.contains(SIGPIPE) && $0.contains(SIGINT) && !$0.contains(SIGSEGV) }
            }
            if !isThere { Issue.record("the threads block \(blockedSignals())") }
            fabric.close(waiting: 0)
        }
    }

    // MARK: what does not work

    @Test func aWrongPasswordIsSaid() async throws {
        let server = try NatsServer("jetstream { store_dir: \"DIRECTORY\" }\nauthorization { user: a, password: b }")
        let error = await #expect(throws: ClusterError.self) {
            _ = try await RealCluster(server.url.replacing("nats://", with: "nats://a:wrong@"))
        }
        let text = error?.description ?? ""
        #expect(text.contains("Authorization Violation") && text.contains("127.0.0.1") && !text.contains("wrong"), "\(text)")
        let cluster = try await RealCluster(server.url.replacing("nats://", with: "nats://a:b@"))
        cluster.close()
    }

    @Test func aServerWithoutJetStreamIsSaid() async throws {
        let server = try NatsServer("")
        let error = await #expect(throws: ClusterError.self) { _ = try await RealCluster(server.url) }
        // The error about a server that does not answer has other words, and takes 9 s.
        #expect(error?.description.contains("nats-server --jetstream") ?? false, "\(error?.description ?? "")")
    }

    @Test func noServerIsSaidAtOnce() async throws {
        let error = await #expect(throws: ClusterError.self) { _ = try await RealCluster("nats://127.0.0.1:\(freePort())") }
        #expect(error?.description.contains("there is no connection to the cluster's server") ?? false, "\(error?.description ?? "")")
    }

    @Test func workersWithAnotherKeyOrVersionGetNoWork() async throws {
        let server = try NatsServer()
        let cluster = try await RealCluster(server.url)
        defer { cluster.close() }
        let never = ClosureRunner { _ in Issue.record("a task runs at a worker that must not get it") }
        try await cluster.addWorker(server.url, key: ClusterKey(Array("another key, no less".utf8)), runner: never)
        try await cluster.addWorker(server.url, version: "2", runner: never)
        try await cluster.addWorker(server.url, key: nil, runner: never)
        try await cluster.addWorker(server.url)
        let outcome = await cluster.run([1])
        #expect(outcome.payload?.bytes == [1])
        #expect(cluster.notices.contains { $0.contains("another key") }, "\(cluster.notices)")
        #expect(cluster.notices.contains { $0.contains("is opscript 2, and this is 1") }, "\(cluster.notices)")
    }

    @Test func aServerWithoutRoomIsSaidAndMayGetSome() async throws {
        let server = try NatsServer("jetstream { store_dir: \"DIRECTORY\", max_file_store: 100KB }")
        let cluster = try await RealCluster(server.url)
        defer { cluster.close() }
        // No worker takes the tasks, so they fill the server.
        let outcomes = Locked<[Coordinator.Outcome]>([])
        let full = AsyncGate(), last = AsyncGate()
        for number in 0..<20 as Range<UInt8> {
            cluster.coordinator.submit(
                Coordinator.Task(Payload(bytes: [UInt8](repeating: number, count: 10_000))),
                Coordinator.Handlers { outcome in
                    outcomes.withLock { $0.append(outcome) }
                    if case .refused = outcome { full.open() } else if outcomes.withLock({ $0.count }) == 20 { last.open() }
                })
        }
        await full.wait()
        #expect(cluster.notices.contains { $0.contains("does not take operations now") }, "\(cluster.notices)")
        try await cluster.addWorker(server.url)
        await last.wait()
        for case .refused(let text) in outcomes.withLock({ $0 }) {
            #expect(text.contains("insufficient") && text.contains("max_file_store"), "\(text)")
        }
        #expect(outcomes.withLock { $0.count { $0.payload != nil } } >= 5)
        let outcome = await cluster.run([1])
        #expect(outcome.payload?.bytes == [1])
    }

    // MARK: figures

    /// A stop takes at most a tenth of a second or, on a slow machine, four times as long as the fastest task.
    @Test func aStopReachesABodyAtOnce() async throws {
        let server = try NatsServer()
        let cluster = try await RealCluster(server.url)
        defer { cluster.close() }
        let isNumbered = AsyncGate(), hasBegun = AsyncGate()
        let runner = ClosureRunner { task in
            if task.bytes == [0] { task.finish(Payload(bytes: [])) } else { hasBegun.open() }
        }
        try await cluster.addWorker(server.url, runner: runner)
        // The handler of the outcome reads the time, because this function may continue much later, after other tests.
        func submit(_ byte: UInt8, then end: @escaping @Sendable (ContinuousClock.Instant) -> Void) -> UInt64 {
            cluster.coordinator.submit(Coordinator.Task(Payload(bytes: [byte])), Coordinator.Handlers { _ in end(.now) })
        }
        var trips: [Duration] = [], stops: [Duration] = []
        for _ in 0..<10 {
            let submission = ContinuousClock.now
            trips.append(await valueGiven { give in _ = submit(0, then: give) } - submission)
            let number = Locked<UInt64>(0)
            async let end = valueGiven { give in
                let made = submit(1, then: give)
                number.withLock { $0 = made }
                isNumbered.open()
            }
            await isNumbered.wait()
            await hasBegun.wait()
            let stop = ContinuousClock.now
            cluster.coordinator.stop(number.withLock { $0 }, .cancel)
            stops.append(await end - stop)
        }
        let trip = try #require(trips.min()), stop = try #require(stops.min())
        #expect(stop < max(.milliseconds(100), trip * 4), "stops \(stops), trips \(trips)")
    }

    @Test func membersMayComeAndGo() async throws {
        let server = try NatsServer()
        for _ in 0..<TestLength.size(30) {
            let cluster = try await RealCluster(server.url)
            try await cluster.addWorker(server.url)
            // No outcome of these tasks is needed after the close.
            for number in 0..<10 as Range<UInt8> {
                cluster.coordinator.submit(Coordinator.Task(Payload(bytes: [number])), Coordinator.Handlers { _ in })
            }
            cluster.close()
        }
    }
}

/// The signals that each thread of this process blocks.
private func blockedSignals() -> [Set<Int32>] {
    guard let folder = opendir("/proc/self/task") else { return [] }
    defer { closedir(folder) }
    var sets: [Set<Int32>] = []
    while let entry = readdir(folder) {
        let name = withUnsafePointer(to: &entry.pointee.d_name) {
            String(cString: UnsafeRawPointer($0).assumingMemoryBound(to: CChar.self))
        }
        guard let status = fopen("/proc/self/task/\(name)/status", "r") else { continue }
        defer { fclose(status) }
        var line = [CChar](repeating: 0, count: 256)
        while fgets(&line, Int32(line.count), status) != nil {
            let words = String(decoding: line.prefix { $0 != 0 }.map({ UInt8(bitPattern: $0) }), as: UTF8.self).split { $0.isWhitespace }
            guard words.first == "SigBlk:", words.count == 2, let bits = UInt64(words[1], radix: 16) else { continue }
            sets.append(Set((1...64).filter { bits >> (UInt64($0) - 1) & 1 == 1 }))
        }
    }
    return sets
}
