/// The settings of the stream of jobs and its consumers, and the meaning of the server's answers. The protocol is JetStream's own, in JSON.
enum JetStream {
    /// Seconds after which the stream gives a message to another worker, unless it was acknowledged or extended.
    static let acknowledgeWait = 15.0
    /// Seconds during which the stream recognizes a message that arrives twice.
    private static let duplicateWindow = 120.0
    /// Seconds after which the stream drops a job that no worker has taken and no coordinator has removed.
    private static let longestStay = 86400.0
    private static let nanoseconds = 1e9

    static let acknowledged = Array("+ACK".utf8), rejected = Array("-NAK".utf8), inProgress = Array("+WPI".utf8)
    static let terminated = Array("+TERM".utf8)

    /// How often the stream has delivered a message. `acknowledgement` is the message's reply subject, which newer servers begin with two more parts.
    static func deliveryCount(in acknowledgement: String) -> Int {
        let parts = acknowledgement.split(separator: ".")
        let index = parts.count > 9 ? 6 : 4
        return parts.indices.contains(index) ? Int(parts[index]) ?? 0 : 0
    }

    /// Gives a message back, for the first worker that pulls after so many seconds.
    static func rejected(for seconds: Double) -> [UInt8] { Array("-NAK {\"delay\":\(Int(seconds * nanoseconds))}".utf8) }

    /// Makes the stream and its consumers, unless they exist.
    ///
    /// - Parameter completion: called once, on any thread, with what is wrong; nil if all is well.
    static func setUp(_ exchange: Exchange, completion: @escaping @Sendable (String?) -> Void) {
        createStream(exchange, triesLeft: setUpTries) { refusal in
            if let refusal { completion(refusal) } else { createConsumers(exchange, from: 0, completion) }
        }
    }

    /// The number of attempts to have servers keep three copies, one a second: servers that have just started may not have found each other.
    private static let setUpTries = 10
    /// The numbers of the servers' errors until then: too few servers for the copies, no leader, too little room on the present servers.
    private static let incompleteCluster = [10005, 10008, 10023]
    private static let noSuchStream = 10059, otherStream = 10058

    /// Makes the stream with three copies. If the server is a single one, or three copies remain impossible, makes it with one, which is lost with
    /// its server.
    private static func createStream(_ exchange: Exchange, triesLeft: Int, _ completion: @escaping @Sendable (String?) -> Void) {
        createStream(exchange, copies: 3) { refusal in
            // A server that has not answered would not answer for one copy either.
            guard let refusal, let number = number(of: refusal) else { return completion(refusal) }
            guard incompleteCluster.contains(number), triesLeft > 1 else { return createStream(exchange, copies: 1, completion) }
            exchange.after(1) { createStream(exchange, triesLeft: triesLeft - 1, completion) }
        }
    }

    private static func createStream(_ exchange: Exchange, copies: Int, _ completion: @escaping @Sendable (String?) -> Void) {
        let settings = """
            {"name":"\(exchange.space.stream)","subjects":["\(exchange.space.jobs)"],"retention":"workqueue","storage":"file","discard":"new",\
            "max_age":\(Int(longestStay * nanoseconds)),"duplicate_window":\(Int(duplicateWindow * nanoseconds)),"num_replicas":\(copies)}
            """
        call(exchange, "STREAM.CREATE.\(exchange.space.stream)", settings) { answer in
            // An existing stream may have been made for another number of servers.
            completion(answer.flatMap { number(of: $0) == otherStream ? nil : $0 })
        }
    }

    private static func createConsumers(_ exchange: Exchange, from priority: Int, _ completion: @escaping @Sendable (String?) -> Void) {
        guard priority < Subject.priorityCount else { return completion(nil) }
        let name = JobSpace.consumer(priority)
        let settings = """
            {"stream_name":"\(exchange.space.stream)","config":{"durable_name":"\(name)","deliver_policy":"all","ack_policy":"explicit",\
            "ack_wait":\(Int(acknowledgeWait * nanoseconds)),"max_deliver":-1,"max_ack_pending":1000000,"max_waiting":100000,\
            "replay_policy":"instant","filter_subject":"\(exchange.space.jobs(withPriority: priority))"}}
            """
        call(exchange, "CONSUMER.DURABLE.CREATE.\(exchange.space.stream).\(name)", settings) { refusal in
            if let refusal { completion(refusal) } else { createConsumers(exchange, from: priority + 1, completion) }
        }
    }

    /// Removes the jobs of a run.
    static func purge(_ exchange: Exchange, run: String, completion: @escaping @Sendable () -> Void) {
        call(exchange, "STREAM.PURGE.\(exchange.space.stream)", "{\"filter\":\"\(exchange.space.jobs(ofRun: run))\"}", tries: 1) { _ in
            completion()
        }
    }

    /// Removes a job, without waiting for the answer.
    static func delete(_ exchange: Exchange, _ sequence: UInt64) {
        exchange.fabric.publish(
            OutgoingMessage(
                subject: "$JS.API.STREAM.MSG.DELETE.\(exchange.space.stream)", bytes: Array("{\"seq\":\(sequence),\"no_erase\":true}".utf8))
        )
    }

    /// Asks how many jobs of a run the stream has, including those that workers have.
    ///
    /// - Parameter completion: called once, on any thread; with nil if the server does not say, and 0 if there is no stream.
    static func count(_ exchange: Exchange, run: String, completion: @escaping @Sendable (Int?) -> Void) {
        let question = Array("{\"subjects_filter\":\"\(exchange.space.jobs(ofRun: run))\"}".utf8)
        exchange.request(question, to: "$JS.API.STREAM.INFO.\(exchange.space.stream)", every: 3, tries: 1) { reply in
            guard case .unsealed(let bytes) = reply else { return completion(nil) }
            if let refusal = refusal(in: bytes) { return completion(number(of: refusal) == noSuchStream ? 0 : nil) }
            completion(countedSubjects(in: String(decoding: bytes, as: UTF8.self)))
        }
    }

    /// The sum of the counts in `"subjects":{"opscript.job.…":3,…}` of a stream's state.
    private static func countedSubjects(in text: String) -> Int {
        var count = 0
        for part in text.split(separator: "\"opscript.job.").dropFirst() {
            // In the settings, no colon follows the subject.
            let rest = part.drop { $0 != "\"" }.dropFirst()
            guard rest.first == ":" else { continue }
            count += Int(rest.dropFirst().drop { $0 == " " }.prefix { ("0"..."9").contains($0) }) ?? 0
        }
        return count
    }

    /// The number that the stream has given to a message; nil if its answer has none.
    static func sequence(in answer: [UInt8]) -> UInt64? {
        number(after: "\"seq\":", in: String(decoding: answer, as: UTF8.self))
    }

    /// The server's number of a refusal; nil if the server has said nothing.
    private static func number(of refusal: String) -> Int? { number(after: "\"err_code\":", in: refusal) }

    private static func number<Number: FixedWidthInteger>(after key: String, in text: String) -> Number? {
        guard let start = text.firstRange(of: key)?.upperBound else { return nil }
        return Number(text[start...].drop { $0 == " " }.prefix { ("0"..."9").contains($0) })
    }

    /// Calls the server's API.
    ///
    /// - Parameter completion: called with the server's refusal, or with the reason why it has not answered; nil if the call has succeeded.
    private static func call(
        _ exchange: Exchange, _ name: String, _ settings: String, tries: Int = 3, _ completion: @escaping @Sendable (String?) -> Void
    ) {
        exchange.request(Array(settings.utf8), to: "$JS.API.\(name)", every: 3, tries: tries) { reply in
            switch reply {
            case .unsealed(let bytes): completion(refusal(in: bytes))
            case .noResponders: completion("the server has no JetStream: start it with 'nats-server --jetstream'")
            case .timeout, .message:
                completion("the server's JetStream does not answer; if it is one of several servers, most of them must run")
            }
        }
    }

    /// The refusal in an answer of the server; nil if the answer is none. The text has the server's number and words.
    static func refusal(in answer: [UInt8]) -> String? {
        let text = String(decoding: answer, as: UTF8.self)
        return text.contains("\"error\":") ? text : nil
    }

    /// The words of a refusal, without JSON around them.
    static func words(of refusal: String) -> String {
        let key = "\"description\":\""
        guard let start = refusal.firstRange(of: key)?.upperBound, let end = refusal[start...].firstIndex(of: "\"") else { return refusal }
        let words = String(refusal[start..<end])
        return words.hasPrefix("insufficient") ? "\(words) (see the server's max_file_store, and its disk)" : words
    }

    /// Asks for the next messages of a priority. The server sends them to `inbox`.
    static func pull(_ exchange: Exchange, priority: Int, count: Int, seconds: Double, inbox: String) {
        let request = "{\"batch\":\(count),\"expires\":\(Int(seconds * nanoseconds))}"
        exchange.fabric.publish(
            OutgoingMessage(
                subject: "$JS.API.CONSUMER.MSG.NEXT.\(exchange.space.stream).\(JobSpace.consumer(priority))", reply: inbox,
                bytes: Array(request.utf8)))
    }

    /// Tells the stream what becomes of a message.
    static func acknowledge(_ exchange: Exchange, _ subject: String, _ answer: [UInt8]) {
        exchange.fabric.publish(OutgoingMessage(subject: subject, bytes: answer))
    }
}

extension StringProtocol {
    /// The first occurrence of `other`. The standard library's function needs Swift's regular expressions, 2 MB of the command.
    func firstRange(of other: String) -> Range<Index>? {
        var start = startIndex
        while start < endIndex {
            if self[start...].hasPrefix(other) { return start..<index(start, offsetBy: other.count) }
            start = index(after: start)
        }
        return nil
    }
}
