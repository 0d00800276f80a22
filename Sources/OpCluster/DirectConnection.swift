/// A connection to a listener that has answered what a client wants.
struct DirectConnection {
    let socket: DirectSocket
    /// Seal what the client sends, and open what the listener does.
    let requests: DirectRecords, answers: DirectRecords
    /// Whether the client gets what it wants.
    let isGranted: Bool

    /// Seconds to connect. A firewall that answers nothing costs as much.
    static let secondsToConnect = 1.0

    /// Connects; nil if that fails.
    ///
    /// - Parameters:
    ///   - patience: seconds for each thing that is to come.
    ///   - began: called with the socket, which may be ended then.
    init?(
        to place: DirectPlace, key: ClusterKey?, for request: DirectRequest, within seconds: Double = secondsToConnect,
        patience: Double = DirectListener.patience, _ began: (DirectSocket) -> Void
    ) {
        guard let socket = DirectSocket.connected(to: place, within: seconds, patience: patience) else { return nil }
        began(socket)
        guard let greeting = socket.receive(DirectSecrets.magic.count + DirectSecrets.nonceCount),
            greeting.starts(with: DirectSecrets.magic)
        else { return nil }
        let nonce = DirectSecrets.nonce()
        let secrets = [place.token, Array(greeting.dropFirst(DirectSecrets.magic.count)), nonce]
        guard let requests = DirectSecrets.requests(key, secrets, seals: true), let sealed = requests.seal(request.bytes),
            socket.send(nonce + sealed), let answers = DirectSecrets.answers(key, secrets, seals: false),
            let answer = socket.receive(DirectSecrets.tagCount + 1), let answer = answers.open(answer)
        else { return nil }
        (self.socket, self.requests, self.answers, isGranted) = (socket, requests, answers, answer == [1])
    }
}
