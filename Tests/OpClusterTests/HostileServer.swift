import ClusterSupport

@testable import OpCluster

/// A person without the key controls the server, and swaps, repeats, delays, damages and forges the sealed messages that pass it.
final class HostileServer: @unchecked Sendable {
    // Safety: one thread uses it.

    enum Attack: CaseIterable {
        /// Two messages get each other's contents, reply subjects or subjects.
        case swapContents, swapReplies, swapSubjects
        /// A message gets the contents of an earlier one on its subject. An answer gets those of an earlier answer.
        case substitute
        case again, delay, damage, forge
    }

    private let server: SimulatedServer
    private let attacks: [Attack]
    private let probability: Double
    private var held: [Attack: OutgoingMessage] = [:]
    private var seen: [OutgoingMessage] = []
    private let simulation: Simulation

    /// - Parameter probability: that of an attack on a message.
    init(_ server: SimulatedServer, _ simulation: Simulation, _ attacks: [Attack], probability: Double) {
        (self.server, self.simulation, self.attacks, self.probability) = (server, simulation, attacks, probability)
    }

    func begin() { server.intruder = { [self] in pass($0) } }

    func end() {
        server.intruder = nil
        for attack in Attack.allCases { if let message = held.removeValue(forKey: attack) { server.handle(message) } }
    }

    private func pass(_ message: OutgoingMessage) -> [OutgoingMessage] {
        // The server makes its own answers, and those that it does not like it could leave out.
        guard message.bytes.starts(with: "opc".utf8) else { return [message] }
        defer { if seen.count < 1000 { seen.append(message) } }
        guard simulation.chance(probability), let attack = attacks.randomElement(using: &simulation.random) else { return [message] }
        switch attack {
        case .swapContents: return pair(attack, message) { swap(&$0.bytes, &$1.bytes) }
        case .swapReplies: return pair(attack, message) { swap(&$0.reply, &$1.reply) }
        case .swapSubjects: return pair(attack, message) { swap(&$0.subject, &$1.subject) }
        case .substitute: return [substitute(for: message)]
        case .again:
            simulation.after(simulation.seconds(in: 0...20)) { [server] in server.handle(message) }
            return [message]
        case .delay:
            simulation.after(simulation.seconds(in: 0...8)) { [server] in server.handle(message) }
            return []
        case .damage: return [damaged(message)]
        case .forge: return [forged(message)]
        }
    }

    /// Changes two messages. The first one waits a second for the second one.
    private func pair(
        _ attack: Attack, _ message: OutgoingMessage, _ exchange: (inout OutgoingMessage, inout OutgoingMessage) -> Void
    ) -> [OutgoingMessage] {
        var message = message
        guard var other = held.removeValue(forKey: attack) else {
            held[attack] = message
            simulation.after(1) { [self] in if let left = held.removeValue(forKey: attack) { server.handle(left) } }
            return []
        }
        exchange(&message, &other)
        return [other, message]
    }

    private func substitute(for message: OutgoingMessage) -> OutgoingMessage {
        let isAnswer = message.subject.hasPrefix("_INBOX.")
        let similar = seen.filter { isAnswer ? $0.subject.hasPrefix("_INBOX.") : $0.subject == message.subject }
        var message = message
        if let other = similar.randomElement(using: &simulation.random) { message.bytes = other.bytes }
        return message
    }

    private func damaged(_ message: OutgoingMessage) -> OutgoingMessage {
        var message = message
        message.bytes[.random(in: message.bytes.indices, using: &simulation.random)] ^= .random(in: 1...255, using: &simulation.random)
        return message
    }

    /// Removes the seal, or seals with another key.
    private func forged(_ message: OutgoingMessage) -> OutgoingMessage {
        var message = message
        let contents = Array(message.bytes.dropFirst(5 + 32))
        let key = simulation.chance(0.5) ? ClusterKey(Array("another key of bytes".utf8)) : nil
        message.bytes = Seal(key: key).seal(contents, for: message.subject, reply: message.reply ?? "")
        return message
    }
}
