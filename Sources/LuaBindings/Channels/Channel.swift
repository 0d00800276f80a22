import CLua
import OpEngine
import OpPlatform
import Synchronization

/// A queue of values between any number of senders and receivers: scripts in any state, and tasks of the host.
///
/// A script makes one with `opscript.channel { capacity = 100 }`. The host makes one with `init(capacity:name:in:)`, and passes it as
/// `LuaValue.object(channel)`. The values of one sender arrive in the order in which it sent them; one receiver gets each message. Values are
/// copied when they are sent and when they are received.
///
/// A runtime reports a wait of a script that can never end. The runtime does not know whether the host will send or receive, so set
/// `Runtime.Configuration.hostMayAddOperations` if the host does.
///
/// - Concurrency: safe from every thread.
public final class Channel: LuaObject, WaitedObject {
    /// The name in error messages.
    public let name: String?
    /// The most messages that wait; `Int.max` for no limit.
    public let capacity: Int
    let core: RuntimeCore
    private let buffer: Guarded<Buffer>
    /// A number that is higher than those of the channels that `opscript.select` has chosen before; 0 if it has never chosen this one.
    let turn = Atomic<Int>(0)
    private let charge: Charge?

    /// Makes a channel for a runtime's scripts. Closing the runtime closes the channel.
    ///
    /// - Parameters:
    ///   - capacity: the most messages that wait for a receiver, 1 or more. A sender of further messages waits.
    ///   - name: the name in error messages.
    ///   - runtime: the runtime.
    public convenience init(capacity: Int = 100, name: String? = nil, in runtime: Runtime) {
        precondition(capacity >= 1, "opscript: a channel cannot have a capacity of \(capacity): 1 is the least")
        runtime.core.usage.addChannelBytes(Self.ownBytes)
        self.init(capacity: capacity, name: name, core: runtime.core)
    }

    /// The caller has counted `ownBytes`.
    init(capacity: Int, name: String?, core: RuntimeCore) {
        self.capacity = capacity
        self.name = name
        self.core = core
        charge = core.ledger.charge(.channel, name?.utf8.count ?? 0)
        buffer = Guarded(Buffer(capacity: capacity), alignment: 64)
        core.channels.add(self)
    }

    deinit {
        for item in buffer.withLock({ $0.removeAll() }) { discard(item) }
        core.usage.returnChannelBytes(Self.ownBytes)
    }

    /// The bytes that a channel without values counts as; see `Runtime.Limits.channelBytes`.
    static let ownBytes = 256

    /// The number of messages that wait for a receiver.
    public var count: Int { buffer.withLock { $0.count } }

    /// Whether the channel was closed: nothing can be sent any more.
    public var isClosed: Bool { buffer.withLock { $0.isClosed } }

    /// Closes the channel. Receivers get the messages that are left, and then nothing. Senders get an error. Further calls do nothing.
    public func close() {
        let waiters = buffer.withLock { buffer in
            buffer.isClosed = true
            return buffer.takeAllWaiters()
        }
        for waiter in waiters { waiter.wake() }
    }

    /// The channel's name in error messages.
    var displayName: String { name.map { "channel '\($0.shown)'" } ?? "an unnamed channel" }

    // MARK: without waiting

    enum Sent { case sent, full, closed }
    enum Received { case item(Item), empty, closed }

    /// Adds an item. If the result is `sent`, the channel owns the item from then on.
    func put(_ item: Item) -> Sent {
        let (result, receiver) = buffer.withLock { buffer -> (Sent, Waiter?) in
            if buffer.isClosed { return (.closed, nil) }
            if buffer.isFull { return (.full, nil) }
            buffer.append(item)
            return (.sent, buffer.takeWaiter(.toReceive))
        }
        receiver?.wake()
        return result
    }

    /// Takes the first item. The caller owns the item and calls `discard` in the end.
    func take() -> Received {
        let (result, sender) = buffer.withLock { buffer -> (Received, Waiter?) in
            guard let item = buffer.takeFirst() else { return (buffer.isClosed ? .closed : .empty, nil) }
            return (.item(item), buffer.takeWaiter(.toSend))
        }
        sender?.wake()
        return result
    }

    /// Frees the contents of an item that is not in the channel.
    func discard(_ item: Item) {
        if item.values != nil { return }
        var parcel = unsafe item.parcel
        core.ledger?.subtract(.message)
        if core.usage.limitsChannels { core.usage.returnChannelBytes(unsafe clua_parcel_size(&parcel)) }
        unsafe clua_parcel_release(&parcel)
    }

    // MARK: waiting

    /// Whether the waiter need not wait. If it must wait, the channel wakes it when this may have changed, until `leave`.
    func isReady(for waiter: Waiter) -> Bool { buffer.withLock { $0.isReady(for: waiter) } }

    /// Like `isReady`, but the channel does not wake the waiter. The waiter's thread has other work before it sleeps, and the channel may wake
    /// another waiter instead.
    func isReadyNow(for waiter: Waiter) -> Bool {
        buffer.withLock { buffer in
            buffer.remove(waiter)
            return buffer.isReady(for: waiter.purpose)
        }
    }

    /// Ends a wait. A waiter that gives up may have used up a call of `wake`, so the channel wakes another one.
    func leave(_ waiter: Waiter, givesUp: Bool) {
        let next = buffer.withLock { buffer -> Waiter? in
            buffer.remove(waiter)
            return givesUp && buffer.isReady(for: waiter.purpose) ? buffer.takeWaiter(waiter.purpose) : nil
        }
        next?.wake()
    }

    /// A text that says why the operation waits, as in `to receive from channel 'lines'`; nil if it does not wait for this channel.
    func purposeOfWait(of operation: Operation) -> String? {
        let purpose = buffer.withLock { buffer in buffer.waiters.first { $0.operation === operation }?.purpose }
        return purpose.map { description(of: $0) }
    }

    func description(of purpose: Waiter.Purpose) -> String { "\(purpose == .toSend ? "to send to" : "to receive from") \(displayName)" }

    /// Closes the channel and drops its values, which may refer to the channel itself.
    func abandon() {
        close()
        for item in buffer.withLock({ $0.removeAll() }) { discard(item) }
    }
}

extension Channel: ModuleObject {
    var kind: ObjectKind { .channel }
}
