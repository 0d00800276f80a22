public import OpCluster

/// A model of a NATS server with JetStream.
public final class SimulatedServer: @unchecked Sendable {
    // Safety: one thread uses it.

    let simulation: Simulation
    /// Whether it takes connections.
    public private(set) var isUp = true
    /// Seconds that a message needs. Until the server is done with one, the next waits.
    public var cost = 0.0
    /// Until when the server has work.
    public private(set) var busyUntil = 0.0
    /// The number of messages that it has got.
    public private(set) var messageCount = 0
    /// How many messages fit the disk.
    public var room = Int.max
    /// Gets every message that the server gets or gives, to show what has happened.
    public var trace:
        ((_ member: String, _ isForServer: Bool, _ subject: String, _ reply: String, _ bytes: [UInt8], _ status: Int) -> Void)?
    /// Gets every message that arrives at the server, and returns those that the server handles instead.
    public var intruder: ((OutgoingMessage) -> [OutgoingMessage])?
    /// Whether it is one of several servers, and when it has found the others.
    public var isOneOfSeveral = false, othersAreThereAt = 0.0
    /// How many copies of each stream there are.
    public private(set) var copies: [String: Int] = [:]
    /// Whether `passOver` was called.
    public private(set) var hasPassedOver = false
    private var members: [ObjectIdentifier: SimulatedFabric] = [:]
    private var subscribers: [String: [SimulatedFabric]] = [:]
    private var streams: [String: SimulatedStream] = [:]

    /// Makes a server without streams.
    public init(_ simulation: Simulation) { self.simulation = simulation }

    /// The number of messages in all streams.
    public var storedCount: Int { streams.values.reduce(0) { $0 + $1.count } }
    var hasRoom: Bool { storedCount < room }

    // MARK: connections

    func add(_ member: SimulatedFabric) {
        members[ObjectIdentifier(member)] = member
        for subject in member.subjects { subscribers[subject, default: []].append(member) }
    }

    func remove(_ member: SimulatedFabric) {
        guard members.removeValue(forKey: ObjectIdentifier(member)) != nil else { return }
        for subject in member.subjects {
            subscribers[subject]?.removeAll { $0 === member }
            if subscribers[subject]?.isEmpty ?? false { subscribers[subject] = nil }
        }
    }

    /// Ends at once, and is there again later, with its streams or without. Members notice, and connect again.
    public func restart(downtime: Double, losesStreams: Bool = false) {
        isUp = false
        for member in members.values.sorted(by: { $0.name < $1.name }) {
            member.breakConnection(downtime: simulation.seconds(in: 0.1...0.4), notice: simulation.seconds(in: 0...0.01))
        }
        for stream in streams.values { stream.forgetPulls() }
        if losesStreams { streams = [:] }
        simulation.after(downtime) { [self] in isUp = true }
    }

    /// Takes each message for delivered and acknowledged with a probability, though no member has received it: a killed nats-server 2.9
    /// does so.
    public func passOver(_ probability: Double) {
        hasPassedOver = true
        for (_, stream) in streams.sorted(by: { $0.key < $1.key }) { stream.passOver(probability) }
    }

    /// Removes all streams, as a person might.
    public func removeStreams() { streams = [:] }

    // MARK: messages

    func receive(_ message: OutgoingMessage, from member: SimulatedFabric) {
        guard isUp else { return }
        trace?(member.name, true, message.subject, message.reply ?? "", message.bytes, 0)
        if let intruder { return intruder(message).forEach(handle) }
        guard cost > 0 else { return handle(message) }
        busyUntil = max(busyUntil, simulation.now) + cost
        simulation.at(busyUntil) { [self] in handle(message) }
    }

    /// Handles a message, as if a member had sent it.
    public func handle(_ message: OutgoingMessage) {
        messageCount += 1
        if message.subject.hasPrefix("$JS.API.") { return handleCall(message, message.subject.dropFirst(8).split(separator: ".")) }
        if message.subject.hasPrefix("$JS.ACK.") {
            let parts = message.subject.split(separator: ".")
            guard parts.count == 9, let sequence = UInt64(parts[5]) else { return }
            streams[String(parts[2])]?.acknowledge(String(parts[3]), sequence, String(decoding: message.bytes, as: UTF8.self))
            return
        }
        if message.subject.hasPrefix("opscript.job."), let stream = streams.values.first(where: { $0.takes(message.subject) }) {
            if let answer = stream.store(message), let reply = message.reply { deliver(to: reply, bytes: Array(answer.utf8)) }
            return
        }
        let hasReceiver = deliver(to: message.subject, reply: message.reply ?? "", bytes: message.bytes)
        if !hasReceiver, let reply = message.reply { deliver(to: reply, status: 503) }
    }

    /// Returns whether a member gets the message.
    @discardableResult
    func deliver(to subject: String, named: String? = nil, reply: String = "", bytes: [UInt8] = [], status: Int = 0) -> Bool {
        let members = members(of: subject)
        for member in members {
            trace?(member.name, false, named ?? subject, reply, bytes, status)
            member.deliver(IncomingMessage(subject: named ?? subject, reply: reply, bytes: bytes, status: status))
        }
        return !members.isEmpty
    }

    func hasReceiver(_ subject: String) -> Bool { !members(of: subject).isEmpty }

    /// Wildcards are the last parts of subjects here.
    private func members(of subject: String) -> [SimulatedFabric] {
        var found = subscribers[subject] ?? []
        var isLast = true
        var end = subject.lastIndex(of: ".")
        while let dot = end {
            let start = subject[..<dot]
            if isLast { found += subscribers["\(start).*"] ?? [] }
            found += subscribers["\(start).>"] ?? []
            isLast = false
            end = start.lastIndex(of: ".")
        }
        return found
    }

    // MARK: JetStream's API

    private func handleCall(_ message: OutgoingMessage, _ call: [Substring]) {
        let settings = String(decoding: message.bytes, as: UTF8.self)
        var answer = "{\"type\":\"io.nats.jetstream.api.v1.response\"}"
        let noStream = "{\"error\":{\"code\":404,\"err_code\":10059,\"description\":\"stream not found\"}}"
        switch call.prefix(2) {
        case ["STREAM", "CREATE"]:
            let name = String(call[2])
            let isReplicated = settings.contains("\"num_replicas\":3")
            if isReplicated, !isOneOfSeveral {
                answer =
                    "{\"error\":{\"code\":500,\"err_code\":10074,\"description\":\"replicas > 1 not supported in non-clustered mode\"}}"
            } else if isReplicated, simulation.now < othersAreThereAt {
                answer = "{\"error\":{\"code\":400,\"err_code\":10005,\"description\":\"no suitable peers for placement\"}}"
            } else if streams[name] == nil {
                copies[name] = isReplicated ? 3 : 1
                streams[name] = SimulatedStream(name, self)
            }
        case ["CONSUMER", "DURABLE"]:
            if let stream = streams[String(call[3])] { stream.addConsumer(String(call[4])) } else { answer = noStream }
        case ["STREAM", "PURGE"]:
            let run = settings.split(separator: ".").dropLast().last.map(String.init) ?? ""
            streams[String(call[2])]?.purge { $0.contains(".\(run).") }
        case ["STREAM", "INFO"]:
            let run = settings.split(separator: ".").dropLast().last.map(String.init) ?? ""
            guard let stream = streams[String(call[2])] else {
                answer = noStream
                break
            }
            let counts = stream.subjects.filter { $0.key.contains(".\(run).") }.map { "\"\($0.key)\":\($0.value)" }.sorted()
            answer =
                "{\"config\":{\"subjects\":[\"opscript.job.x.>\"],\"a\":1},\"state\":{\"subjects\":{\(counts.joined(separator: ","))}}}"
        case ["STREAM", "MSG"]:
            let sequence = settings.split(separator: ":").dropFirst().first?.prefix { $0.isNumber } ?? ""
            if let sequence = UInt64(sequence) { streams[String(call[3])]?.remove(sequence) }
        case ["CONSUMER", "MSG"]:
            guard let stream = streams[String(call[3])], let inbox = message.reply else {
                if let reply = message.reply { deliver(to: reply, status: 503) }
                return
            }
            return stream.pull(String(call[4]), settings, inbox: inbox)
        default: break
        }
        if let reply = message.reply { deliver(to: reply, bytes: Array(answer.utf8)) }
    }
}
