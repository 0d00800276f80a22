import OpCluster

/// A model of a work queue of JetStream, with pull consumers.
final class SimulatedStream {
    private struct Pull {
        let inbox: String
        var left: Int
        let number: Int
    }

    private final class Consumer {
        var waiting: [UInt64] = []
        var first = 0
        /// The messages that were not acknowledged in time, or that were given back.
        var again: [UInt64] = []
        var deadlines: [UInt64: Double] = [:]
        var deliveries: [UInt64: Int] = [:]
        var pulls: [Pull] = []
    }

    private let name: String
    private unowned let server: SimulatedServer
    private var messages: [UInt64: OutgoingMessage] = [:]
    private var lastSequence: UInt64 = 0
    private var ids: [String: (sequence: UInt64, time: Double)] = [:]
    private var consumers: [String: Consumer] = [:]
    private var pullCount = 0
    private var simulation: Simulation { server.simulation }

    init(_ name: String, _ server: SimulatedServer) { (self.name, self.server) = (name, server) }

    var count: Int { messages.count }
    /// How many messages each subject has.
    var subjects: [String: Int] { messages.values.reduce(into: [:]) { $0[$1.subject, default: 0] += 1 } }

    func takes(_ subject: String) -> Bool { name == "OPSCRIPT_\(subject.split(separator: ".")[2])" }

    func addConsumer(_ name: String) {
        if consumers[name] != nil { return }
        let consumer = Consumer()
        consumer.waiting = messages.filter { $0.value.subject.hasSuffix(".\(name.dropFirst())") }.keys.sorted()
        consumers[name] = consumer
    }

    /// Returns the answer.
    func store(_ message: OutgoingMessage) -> String? {
        if let id = message.id, let known = ids[id], simulation.now - known.time < 120 {
            return "{\"stream\":\"\(name)\", \"seq\":\(known.sequence), \"duplicate\":true}"
        }
        guard server.hasRoom else {
            return
                "{\"error\":{\"code\":503,\"err_code\":10047,\"description\":\"insufficient storage resources available\"},\"stream\":\"x\",\"seq\":0}"
        }
        lastSequence += 1
        messages[lastSequence] = message
        if let id = message.id { ids[id] = (lastSequence, simulation.now) }
        if let priority = message.subject.split(separator: ".").last, let consumer = consumers["p\(priority)"] {
            consumer.waiting.append(lastSequence)
            give(consumer, "p\(priority)")
        }
        return "{\"stream\":\"\(name)\", \"seq\":\(lastSequence)}"
    }

    func remove(_ sequence: UInt64) {
        messages[sequence] = nil
        for consumer in consumers.values { consumer.deadlines[sequence] = nil }
    }

    func purge(_ isConcerned: (String) -> Bool) {
        for (sequence, message) in messages where isConcerned(message.subject) { remove(sequence) }
    }

    /// Takes messages for delivered and acknowledged that no member has received.
    func passOver(_ probability: Double) {
        for (_, consumer) in consumers.sorted(by: { $0.key < $1.key }) {
            let isKept = { [simulation] (_: UInt64) in !simulation.chance(probability) }
            consumer.waiting = consumer.waiting.dropFirst(consumer.first).filter(isKept)
            consumer.first = 0
            consumer.again = consumer.again.filter(isKept)
            for sequence in consumer.deadlines.keys.sorted() where !isKept(sequence) { consumer.deadlines[sequence] = nil }
        }
    }

    func forgetPulls() { for consumer in consumers.values { consumer.pulls = [] } }

    // MARK: consumers

    func pull(_ name: String, _ settings: String, inbox: String) {
        guard let consumer = consumers[name] else { return }
        let numbers = settings.split { !$0.isNumber }.compactMap { Double($0) }
        pullCount += 1
        let number = pullCount
        consumer.pulls.append(Pull(inbox: inbox, left: Int(numbers[0]), number: number))
        simulation.after(numbers[1] / 1e9) { [self] in
            guard let index = consumer.pulls.firstIndex(where: { $0.number == number }) else { return }
            consumer.pulls.remove(at: index)
            server.deliver(to: inbox, status: 408)
        }
        give(consumer, name)
    }

    private func next(_ consumer: Consumer) -> UInt64? {
        while let sequence = consumer.again.first {
            consumer.again.removeFirst()
            if messages[sequence] != nil, consumer.deadlines[sequence] == nil { return sequence }
        }
        while consumer.first < consumer.waiting.count {
            consumer.first += 1
            if messages[consumer.waiting[consumer.first - 1]] != nil { return consumer.waiting[consumer.first - 1] }
        }
        (consumer.waiting, consumer.first) = ([], 0)
        return nil
    }

    private func give(_ consumer: Consumer, _ consumerName: String) {
        while !consumer.pulls.isEmpty {
            // The server forgets a pull of a member that has gone.
            guard server.hasReceiver(consumer.pulls[0].inbox) else {
                consumer.pulls.removeFirst()
                continue
            }
            guard let sequence = next(consumer), let message = messages[sequence] else { return }
            consumer.deliveries[sequence, default: 0] += 1
            // In turns.
            var pull = consumer.pulls.removeFirst()
            pull.left -= 1
            if pull.left > 0 { consumer.pulls.append(pull) }
            wait(for: sequence, consumer, consumerName)
            let acknowledgement = "$JS.ACK.\(name).\(consumerName).\(consumer.deliveries[sequence] ?? 0).\(sequence).\(sequence).0.0"
            server.deliver(to: pull.inbox, named: message.subject, reply: acknowledgement, bytes: message.bytes)
        }
    }

    private func wait(for sequence: UInt64, _ consumer: Consumer, _ consumerName: String, seconds: Double = 15) {
        consumer.deadlines[sequence] = simulation.now + seconds
        simulation.after(seconds) { [self] in
            guard let deadline = consumer.deadlines[sequence], deadline <= simulation.now else { return }
            consumer.deadlines[sequence] = nil
            consumer.again.append(sequence)
            if server.isUp { give(consumer, consumerName) }
        }
    }

    func acknowledge(_ consumerName: String, _ sequence: UInt64, _ answer: String) {
        guard let consumer = consumers[consumerName] else { return }
        if answer == "+ACK" || answer == "+TERM" {
            remove(sequence)
            consumer.deliveries[sequence] = nil
        } else if consumer.deadlines[sequence] == nil {
            // No member has the message now.
        } else if answer == "+WPI" {
            wait(for: sequence, consumer, consumerName)
        } else if answer.hasPrefix("-NAK") {
            let delay = answer.split { !$0.isNumber }.first.flatMap { Double($0) } ?? 0
            if delay > 0 { return wait(for: sequence, consumer, consumerName, seconds: delay / 1e9) }
            consumer.deadlines[sequence] = nil
            consumer.again.append(sequence)
            give(consumer, consumerName)
        }
    }
}
