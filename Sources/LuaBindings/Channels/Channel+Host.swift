import OpEngine
import OpPlatform

/// Sending and receiving by the host.
extension Channel {
    /// Sends values as one message, unless the channel is full.
    ///
    /// - Parameter values: the values that `receive` returns; the first must not be nil. Functions cannot be sent by the host:
    ///   `LuaValue.other` arrives as nil.
    /// - Returns: false if the channel is full.
    /// - Throws: an error if the channel is closed, or if the first value is nil.
    public func trySend(_ values: LuaValue...) throws(LuaError) -> Bool { try offer(values) }

    /// Sends values as one message, as soon as the channel has room. Suspends the task.
    ///
    /// - Parameter values: the values that `receive` returns; the first must not be nil.
    /// - Throws: an error if the channel is closed, or if the first value is nil; `CancellationError`.
    public func send(_ values: LuaValue...) async throws {
        while try !offer(values) { try await wait(.toSend) }
    }

    /// Takes the next message, unless there is none. Enters the runtime, because the main state copies a script's message: see `Runtime`.
    ///
    /// - Returns: the values that were sent together, copied; nil if there is no message.
    /// - Throws: an error if the values cannot be copied, or if the runtime is closed.
    public func tryReceive() throws(LuaError) -> [LuaValue]? {
        let entrance = core.engine.entrance
        entrance.enter("Channel.tryReceive()")
        defer { entrance.leave() }
        guard case .item(let item) = take() else { return nil }
        defer { discard(item) }
        if let values = item.values { return values }
        guard let main = unsafe core.mainState else { throw LuaError.closed }
        do throws(Failure) { return try unsafe main.values(of: item.parcel) } catch { throw LuaError(error, value: nil) }
    }

    /// Takes the next message, and suspends the task until one arrives. A thread of the runtime copies a script's message when no other
    /// thread is inside, as for `Runtime.perform`.
    ///
    /// - Returns: the values that were sent together; nil when the channel is closed and empty.
    /// - Throws: an error if the values cannot be copied, or if the runtime is closed; `CancellationError`.
    public func receive() async throws -> [LuaValue]? {
        while true {
            switch take() {
            case .closed: return nil
            case .empty: try await wait(.toReceive)
            case .item(let item):
                if let values = item.values { return values }
                let message = Message(item, in: self)
                // The message must not be lost if the task is cancelled now.
                return try await core.perform(StoppableCall("Channel.receive()")) { main in try unsafe main.values(of: message.item.parcel)
                }
            }
        }
    }

    private func offer(_ values: [LuaValue]) throws(LuaError) -> Bool {
        guard let first = values.first, !first.isNil else { throw LuaError(message: Self.refusalOfNil) }
        switch unsafe put(Item(values: values)) {
        case .sent: return true
        case .full: return false
        case .closed: throw LuaError(message: refusalWhenClosed)
        }
    }

    static let refusalOfNil = "nil cannot be sent, because receive returns nil at the end of a channel: send false, or a table"
    var refusalWhenClosed: String { "nothing can be sent to \(displayName): it is closed" }

    private func wait(_ purpose: Waiter.Purpose) async throws {
        let event = Event()
        let waiter = Waiter(purpose, nil) { event.occur() }
        if isReady(for: waiter) { return }
        await withTaskCancellationHandler {
            await event.wait()
        } onCancel: {
            event.occur()
        }
        let isCancelled = Task.isCancelled
        leave(waiter, givesUp: isCancelled)
        if isCancelled { throw CancellationError() }
    }
}

/// The first values of the messages, for `for try await`. Ends when the channel is closed and empty.
extension Channel: AsyncSequence {
    /// Takes messages from a channel.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let channel: Channel

        /// The first value of the next message. See `Channel.receive`.
        public func next() async throws -> LuaValue? { try await channel.receive()?.first }
    }

    /// Makes an iterator. Several iterators may take messages at once.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(channel: self) }
}

/// A message that has left its channel.
@safe private final class Message: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the item does not change until the end.
    let item: Channel.Item
    private let channel: Channel

    init(_ item: Channel.Item, in channel: Channel) {
        self.item = item
        self.channel = channel
    }

    deinit { channel.discard(item) }
}

/// An event that occurs once, and that one task waits for.
private final class Event: Sendable {
    private struct State {
        var hasOccurred = false
        var waiting: CheckedContinuation<Void, Never>?
    }

    private let state = Guarded(State())

    func occur() {
        let waiting = state.withLock { state in
            state.hasOccurred = true
            return state.waiting.take()
        }
        waiting?.resume()
    }

    func wait() async {
        await withCheckedContinuation { continuation in
            let hasOccurred = state.withLock { state in
                if !state.hasOccurred { state.waiting = continuation }
                return state.hasOccurred
            }
            if hasOccurred { continuation.resume() }
        }
    }
}
