public import OpCluster

/// A member's connection to a simulated server.
public final class SimulatedFabric: Fabric, @unchecked Sendable {
    // Safety: one thread uses it.

    private let simulation: Simulation
    private let server: SimulatedServer
    /// Names the member in what tests print.
    public let name: String
    /// Seconds that a message takes, from and to.
    public var delay: ClosedRange<Double>
    /// Seconds that the member needs for a message that it gets or sends. Until it is done with one, the next waits.
    public var cost = 0.0
    /// Until when the member has work.
    public private(set) var busyUntil = 0.0
    /// Seconds of work for messages, and their number.
    public private(set) var workSeconds = 0.0, messageCount = 0
    /// Whether each message that comes may come twice.
    public var repeatsMessages = false
    /// Seconds by which a message that is to come is late, so that others overtake it; nil if none may.
    public var lateness: (IncomingMessage) -> Double? = { _ in nil }
    /// Changes a message that is to come.
    public var change: (IncomingMessage) -> IncomingMessage = { $0 }
    private(set) var subjects: [String] = []
    private var receiver: (any FabricReceiver)?
    /// Counts the connections. Messages that are under way on an earlier one are lost.
    private(set) var generation = 0
    /// Whether the member thinks that there is a connection.
    public private(set) var isConnected = false
    /// Whether there is one.
    private var isLinked = false
    private var kept: [OutgoingMessage] = []
    private var lastUp = 0.0, lastDown = 0.0, stalledUntil = 0.0
    /// Whether the process is gone.
    public private(set) var isDead = false
    private var hasClosed = false

    /// Makes a connection that is not open yet.
    public init(_ name: String, _ simulation: Simulation, _ server: SimulatedServer, delay: ClosedRange<Double>) {
        (self.name, self.simulation, self.server, self.delay) = (name, simulation, server, delay)
    }

    /// How far its clock is ahead of that of the simulation: each machine's begins when it starts.
    public var clockOffset = 0.0
    /// Seconds of the clock.
    public var now: Double { simulation.now + clockOffset }
    /// The limit of the server.
    public var maxPayload: Int { 1 << 20 }
    /// The next random number of the simulation.
    public func randomNumber() -> UInt64 { simulation.random.next() }
    private var isGone: Bool { isDead || hasClosed }

    /// Calls `body` later.
    public func after(_ seconds: Double, _ body: @escaping @Sendable () -> Void) {
        simulation.after(seconds) { [weak self] in if let self, !isGone { body() } }
    }

    /// Connects.
    public func start(_ subjects: [String], _ receiver: any FabricReceiver) throws(ClusterError) {
        (self.subjects, self.receiver) = (subjects, receiver)
        connect(tellsReceiver: false)
    }

    /// Closes the connection.
    public func close(waiting seconds: Double) {
        if isGone { return }
        // Published messages still arrive.
        let last = max(lastUp, stalledUntil, simulation.now)
        let generation = generation
        hasClosed = true
        simulation.at(last) { [self] in
            if generation == self.generation { server.remove(self) }
            receiver = nil
        }
    }

    /// Publishes without waiting.
    public func publish(_ message: OutgoingMessage) {
        if isGone { return }
        guard isConnected else {
            if kept.count < 10000 { kept.append(message) }
            return
        }
        send(message)
    }

    private func send(_ message: OutgoingMessage) {
        work()
        lastUp = max(lastUp, max(simulation.now, busyUntil, stalledUntil) + simulation.seconds(in: delay))
        let generation = generation
        simulation.at(lastUp) { [self] in
            // A closed member's last messages are still on their way.
            if generation == self.generation, isLinked, !isDead { server.receive(message, from: self) }
        }
    }

    /// Called by the server.
    func deliver(_ message: IncomingMessage) {
        let message = change(message)
        var arrival = max(lastDown, max(simulation.now, stalledUntil) + simulation.seconds(in: delay))
        if let lateness = lateness(message) { arrival += lateness } else { lastDown = arrival }
        let generation = generation
        let count = repeatsMessages && simulation.chance(0.1) ? 2 : 1
        simulation.at(arrival) { [self] in
            guard generation == self.generation, isLinked, !isGone else { return }
            if cost == 0 {
                for _ in 0..<count { receiver?.receive(message) }
            } else {
                work()
                simulation.at(busyUntil) { [self] in if !isGone { receiver?.receive(message) } }
            }
        }
    }

    private func work() {
        if cost == 0 { return }
        busyUntil = max(busyUntil, simulation.now) + cost
        workSeconds += cost
        messageCount += 1
    }

    // MARK: faults

    /// Holds back all messages, which come later.
    public func stall(for seconds: Double) { stalledUntil = simulation.now + seconds }

    /// Loses the connection, and what is under way.
    ///
    /// - Parameters:
    ///   - downtime: seconds until the member connects again.
    ///   - notice: seconds until the member notices.
    ///   - serverNotice: seconds until the server notices.
    public func breakConnection(downtime: Double, notice: Double = 0, serverNotice: Double = 0) {
        guard isLinked, !isGone else { return }
        isLinked = false
        let generation = generation
        simulation.after(serverNotice) { [self] in if generation == self.generation { server.remove(self) } }
        simulation.after(notice) { [self] in
            guard generation == self.generation, !isGone else { return }
            isConnected = false
            receiver?.connectionHasChanged(.lost(""))
            simulation.after(downtime) { [self] in connectAgain() }
        }
    }

    /// The process ends at once.
    public func kill(serverNotice: Double = 0) {
        isDead = true
        isLinked = false
        receiver = nil
        let generation = generation
        simulation.after(serverNotice) { [self] in if generation == self.generation { server.remove(self) } }
    }

    /// Forgets whom it serves, so that nothing refers to itself.
    public func forget() { (receiver, kept) = (nil, []) }

    private func connectAgain() {
        guard !isGone, !isLinked else { return }
        guard server.isUp else { return simulation.after(0.2 + simulation.seconds(in: 0...0.1)) { [self] in connectAgain() } }
        connect(tellsReceiver: true)
    }

    private func connect(tellsReceiver: Bool) {
        server.remove(self)
        generation += 1
        (isLinked, isConnected, stalledUntil) = (true, true, 0)
        server.add(self)
        let kept = kept
        self.kept = []
        // A client does not know how much of what it kept has been sent.
        for message in kept where !simulation.chance(0.1) { send(message) }
        if tellsReceiver { receiver?.connectionHasChanged(.isBack("")) }
    }
}
