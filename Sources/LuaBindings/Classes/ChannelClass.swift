import CLua
import OpEngine

/// The object that `opscript.channel` returns.
enum ChannelClass {
    enum Function: String, Member {
        case send, trySend, sendWithin, receive, tryReceive, close
        case call = "__call"
        case length = "__len"
        case closing = "__close"
    }

    enum Property: String, Member {
        case name, capacity, count, isClosed
    }

    enum Option: String, OptionKey {
        static let names = OptionNames<Option>()
        case capacity, name
    }

    static var description: clua_class {
        let functions = unsafe Function.table
        let properties = unsafe Property.table
        return unsafe clua_class(
            name: StaticName.channel, kind: ObjectKind.channel.rawValue, base: nil, functions: functions.start,
            function_count: functions.count,
            properties: properties.start, property_count: properties.count, class_properties: NoMember.table.start, class_property_count: 0,
            call: { unsafe LuaState.answer($0, $1, $2, ChannelClass.function) },
            get: { unsafe LuaState.answer($0, $1, $2, ChannelClass.get) },
            set: { unsafe LuaState.answer($0, $1, $2, ChannelClass.refuse) },
            class_get: { _, _, _ in }, describe: { unsafe LuaState.answer($0, $1, $2, ChannelClass.describe) })
    }

    /// `opscript.channel()` and `opscript.channel { capacity =, name = }`.
    static func make(_ call: Call) throws(CallError) -> Answer {
        var capacity = 100
        var name: String?
        if !call.isMissing(at: 1) {
            guard call.isTable(at: 1) else { throw call.expected("table such as { capacity = 100 }", at: 1) }
            let options = try call.options(Option.self)
            if let index = options[.capacity] { capacity = try self.capacity(at: index, call) }
            if let index = options[.name] {
                name = try call.option("name") { () throws(CallError) in try call.requiredString(at: index) }
            }
        }
        try call.state.makeRoom(for: .channel, name?.utf8.count ?? 0)
        try call.state.core.usage.takeChannelBytes(Channel.ownBytes)
        return .object(Channel(capacity: capacity, name: name, core: call.state.core), .channel)
    }

    private static func capacity(at index: Int32, _ call: Call) throws(CallError) -> Int {
        if let number = call.integer(at: index), number >= 1 { return number }
        if call.type(at: index) == LUA_TNUMBER, try call.number(at: index) == .infinity { return .max }
        let found = call.type(at: index) == LUA_TNUMBER ? try call.number(at: index).scriptText : "a \(call.typeName(at: index))"
        throw .argument(1, "capacity must be an integer, 1 or more, or math.huge, got \(found)")
    }

    private static func function(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let function = Function(number: member) else { throw .message("opscript bug: no method \(member)") }
        // The channel is not retained: all threads that use it would write to one reference count, which is slow because the list of channels
        // has weak references. The handle on the stack keeps the channel alive, also while a call waits.
        return try unsafe call.channel(callingFor: function.rawValue).with { channel throws(CallError) in
            try perform(function, on: channel, call)
        }
    }

    @inline(__always)
    private static func perform(_ function: Function, on channel: Channel, _ call: Call) throws(CallError) -> Answer {
        switch function {
        case .send: return try send(to: channel, from: 2, call, waiting: .long)
        case .trySend: return try send(to: channel, from: 2, call, waiting: .not)
        case .sendWithin: return try send(to: channel, from: 3, call, waiting: .seconds(try call.seconds(at: 2)))
        case .receive, .call: return try receive(from: channel, call, waiting: try call.timeout(at: 2).map { .seconds($0) } ?? .long)
        case .tryReceive: return try receive(from: channel, call, waiting: .not)
        case .close, .closing:
            channel.close()
            return .nothing
        case .length: return .integer(channel.count)
        }
    }

    // MARK: sending and receiving

    /// The length of a call's wait. In seconds, because only calls that wait need an instant, whose size is not known when this is
    /// compiled.
    private enum Waiting {
        case not, long
        case seconds(Double)

        var deadline: ContinuousClock.Instant? {
            if case .seconds(let seconds) = self { .after(seconds) } else { nil }
        }
    }

    /// Sends the arguments from stack index `first` on.
    private static func send(to channel: Channel, from first: Int32, _ call: Call, waiting: Waiting) throws(CallError) -> Answer {
        if call.isMissing(at: first) { throw .argument(first, Channel.refusalOfNil) }
        let item = try makeItem(of: call.count - first + 1, for: channel, call)
        var sent = channel.put(item)
        // After `sent`, the channel owns the item.
        defer { if sent != .sent { channel.discard(item) } }
        if sent == .full { sent = try sendLater(item, to: channel, call, waiting) }
        if sent == .closed { throw .message(channel.refusalWhenClosed) }
        return .boolean(sent == .sent)
    }

    /// A message of the top `count` values. The caller calls `discard` unless the channel takes it.
    @inline(__always)
    static func makeItem(of count: Int32, for channel: Channel, _ call: Call) throws(CallError) -> Channel.Item {
        var item = Channel.Item()
        try call.state.makeRoom(for: .message)
        do throws(Failure) { unsafe item.parcel = try call.state.encodeContents(count: count, CLUA_INVOCATION) } catch {
            throw CallError(error)
        }
        if unsafe !item.parcel.is_flat { call.state.publishSettings() }
        if channel.core.usage.limitsChannels {
            do throws(CallError) { try channel.core.usage.takeChannelBytes(unsafe clua_parcel_size(&item.parcel)) } catch {
                unsafe clua_parcel_release(&item.parcel)
                throw error
            }
        }
        channel.core.ledger?.add(.message)
        return item
    }

    /// Sends an item as soon as there is room. The result is `full` if the time runs out.
    @inline(never)
    private static func sendLater(
        _ item: Channel.Item, to channel: Channel, _ call: Call, _ waiting: Waiting
    ) throws(CallError) -> Channel.Sent {
        if case .not = waiting { return .full }
        let deadline = waiting.deadline
        while true {
            switch try wait(for: [(.toSend, channel)], call, until: deadline) {
            case .ready:
                let sent = channel.put(item)
                if sent != .full { return sent }
            case .timedOut: return .full
            // The operation was cancelled. The value cannot be delivered, and its body must end.
            case .cancelled: throw .stop(.interrupted)
            }
        }
    }

    /// Returns the values of a message; nil and the reason if there is none.
    private static func receive(from channel: Channel, _ call: Call, waiting: Waiting) throws(CallError) -> Answer {
        switch channel.take() {
        case .item(let item): return .values(try deliver(item, from: channel, call))
        case .closed: return try ended("closed", call)
        case .empty: return try receiveLater(from: channel, call, waiting)
        }
    }

    /// Returns the values of a message as soon as there is one.
    @inline(never)
    private static func receiveLater(from channel: Channel, _ call: Call, _ waiting: Waiting) throws(CallError) -> Answer {
        if case .not = waiting { return try ended("empty", call) }
        let deadline = waiting.deadline
        while true {
            switch try wait(for: [(.toReceive, channel)], call, until: deadline) {
            case .ready: break
            case .timedOut: return try ended("timeout", call)
            case .cancelled: return try ended("cancelled", call)
            }
            switch channel.take() {
            case .item(let item): return .values(try deliver(item, from: channel, call))
            case .closed: return try ended("closed", call)
            case .empty: continue
            }
        }
    }

    /// Pushes the values of an item that has left the channel. Returns their number.
    @inline(__always)
    static func deliver(_ item: Channel.Item, from channel: Channel, _ call: Call) throws(CallError) -> Int {
        if let values = item.values {
            try call.push(values)
            return values.count
        }
        defer { channel.discard(item) }
        var parcel = unsafe item.parcel
        do throws(Failure) { try unsafe call.state.decode(&parcel) } catch { throw CallError(error) }
        return unsafe Int(parcel.value_count)
    }

    private static func ended(_ reason: String, _ call: Call) throws(CallError) -> Answer {
        try call.push([.nil, .string(reason)])
        return .values(2)
    }

    enum Ended { case ready, timedOut, cancelled }
    typealias Way = (purpose: Channel.Waiter.Purpose, channel: Channel)

    /// Waits until something can be sent or received in one of the ways, or a channel is closed. Callbacks run meanwhile.
    static func wait(for ways: [Way], _ call: Call, until deadline: ContinuousClock.Instant?) throws(CallError) -> Ended {
        let state = call.state
        let waiters = ways.map { way in
            Channel.Waiter(way.purpose, state.currentOperation) { [inbox = state.inbox] in inbox.wake() }
        }
        var isReady = false, givesUp = true
        defer { for (way, waiter) in zip(ways, waiters) { way.channel.leave(waiter, givesUp: givesUp) } }
        let outcome = try state.wait(deadline: deadline) {
            // Jobs that this thread runs before it sleeps may take long, or wait for a message of one of these channels.
            let hasWork = state.inbox.hasWork
            isReady = zip(ways, waiters).contains { way, waiter in
                hasWork ? way.channel.isReadyNow(for: waiter) : way.channel.isReady(for: waiter)
            }
            return isReady
        }
        // Several channels may have woken this thread, and it will use one of them.
        givesUp = !isReady || ways.count > 1
        if isReady { return .ready }
        switch outcome {
        case .satisfied: return .cancelled
        case .timedOut: return .timedOut
        case .stalled: throw stall(ways, state)
        }
    }

    /// The error of a wait that nothing can end.
    private static func stall(_ ways: [Way], _ state: LuaState) -> CallError {
        let waiting = state.currentOperation
        let others = state.core.engine.unfinishedOperations().filter { $0 !== waiting }
        let why = others.isEmpty ? "" : "; " + StallReport(waitingFor: others).description(naming: .script)
        let purposes = Set(ways.map { $0.channel.description(of: $0.purpose) }).sorted().joined(separator: " or ")
        let remedy = ways.count > 1 ? "use one of them" : ways[0].purpose == .toSend ? "receive from it" : "send to it"
        return .message(
            "this wait can never end: \(waiting?.displayName ?? "this code") waits \(purposes), "
                + "and nothing is left that could \(remedy)\(why)")
    }

    // MARK: properties

    private static func get(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let channel = call.channelIfAny(at: 1) else { throw call.expected("Channel", at: 1) }
        switch Property(number: member) {
        case .name: return channel.name.map { .string($0) } ?? .nil
        case .capacity: return channel.capacity == .max ? .number(.infinity) : .integer(channel.capacity)
        case .count: return .integer(channel.count)
        case .isClosed: return .boolean(channel.isClosed)
        case nil: return .nil
        }
    }

    private static func refuse(_: Int32, _: Call) throws(CallError) -> Answer {
        throw .message("a channel has nothing to assign to: use channel:send(...)")
    }

    private static func describe(_: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let channel = call.channelIfAny(at: 1) else { throw call.expected("Channel", at: 1) }
        let most = channel.capacity == .max ? "" : " of \(channel.capacity)"
        return .string("Channel\(channel.name.map { " '\($0)'" } ?? "") (\(channel.count)\(most)\(channel.isClosed ? ", closed" : ""))")
    }
}
