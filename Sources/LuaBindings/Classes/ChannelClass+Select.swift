import CLua
import Synchronization

/// `opscript.select`, which uses one of several channels.
extension ChannelClass {
    /// A send or a receive that a call may choose.
    private struct Alternative {
        /// The position of its key in the list of fields.
        let position: lua_Integer
        let channel: Channel
        /// The message to send, which this call owns; nil to receive, or if the message was sent.
        var item: Channel.Item?

        var way: Way { (item == nil ? .toReceive : .toSend, channel) }
    }

    /// The number of choices so far.
    private static let choices = Atomic<Int>(0)

    /// `opscript.select { key = channel, key = { channel, value, … }, timeout = seconds }`.
    static func select(_ call: Call) throws(CallError) -> Answer {
        guard call.isTable(at: 1) else { throw call.expected("table such as { a = channel, timeout = 1 }", at: 1) }
        do throws(Failure) {
            try unsafe call.state.attempt { lua, failure in unsafe clua_list_fields(lua, 1, &failure) }
        } catch { throw CallError(error) }
        // The list keeps the channels alive.
        let list = call.count
        var alternatives: [Alternative] = []
        defer { for each in alternatives { if let item = each.item { each.channel.discard(item) } } }
        let timeout = try read(list, call, into: &alternatives)
        if alternatives.isEmpty { throw .argument(1, "a channel is missing, as in { a = channel, timeout = 1 }") }
        let deadline = timeout.map { ContinuousClock.Instant.after($0) }
        while true {
            // The channel that was chosen longest ago is the first. So none of several that are ready waits for ever.
            let turns = alternatives.indices.map { ($0, alternatives[$0].channel.turn.load(ordering: .relaxed)) }
            for (index, _) in turns.sorted(by: { $0.1 < $1.1 }) {
                if let count = try attempt(&alternatives[index], list, call) { return .values(count) }
            }
            switch try wait(for: alternatives.map(\.way), call, until: deadline) {
            case .ready: continue
            case .timedOut: return .string("timeout")
            // A loop around the call could not tell this end from others.
            case .cancelled: throw .stop(.interrupted)
            }
        }
    }

    /// Reads the alternatives. Returns the timeout in seconds, if there is one.
    private static func read(_ list: Int32, _ call: Call, into alternatives: inout [Alternative]) throws(CallError) -> Double? {
        guard unsafe lua_checkstack(call.lua, 4) != 0 else { throw .message("stack overflow") }
        let (key, value) = (list + 1, list + 2)
        var timeout: Double?
        for position in stride(from: 1, to: unsafe lua_Integer(lua_rawlen(call.lua, list)), by: 2) {
            unsafe lua_settop(call.lua, list)
            unsafe lua_rawgeti(call.lua, list, position)
            unsafe lua_rawgeti(call.lua, list, position + 1)
            let text = call.string(at: key)
            if text == "timeout" {
                timeout = try call.option("timeout") { () throws(CallError) in try call.seconds(at: value) }
            } else if let channel = call.channelIfAny(at: value) {
                alternatives.append(Alternative(position: position, channel: channel))
            } else {
                let name = text.map { "'\($0)'" } ?? "[\(call.integer(at: key).map(String.init) ?? call.typeName(at: key))]"
                if call.isTable(at: value) { unsafe lua_rawgeti(call.lua, value, 1) }
                guard call.count > value, let channel = call.channelIfAny(at: value + 1) else {
                    throw .argument(1, "Channel or { channel, value } expected at \(name), got \(call.typeName(at: value))")
                }
                let item = try message(at: value, for: channel, named: name, call)
                alternatives.append(Alternative(position: position, channel: channel, item: item))
            }
        }
        unsafe lua_settop(call.lua, list)
        return timeout
    }

    /// The message of the table `{ channel, value, … }` at a stack index.
    private static func message(
        at index: Int32, for channel: Channel, named name: String, _ call: Call
    ) throws(CallError) -> Channel.Item {
        let length = unsafe Int32(clamping: clua_packed_length(call.lua, index)), top = call.count
        guard length > 1, unsafe lua_checkstack(call.lua, length) != 0 else {
            throw .argument(1, "at \(name): \(length > 1 ? "too many values" : Channel.refusalOfNil)")
        }
        for number in 2...lua_Integer(length) { unsafe lua_rawgeti(call.lua, index, number) }
        if call.isMissing(at: top + 1) { throw .argument(1, "at \(name): \(Channel.refusalOfNil)") }
        do throws(CallError) { return try makeItem(of: length - 1, for: channel, call) } catch {
            guard case .message(let text) = error else { throw error }
            throw .message("at \(name): \(text)")
        }
    }

    /// Sends or receives if that needs no wait. Pushes the key and the values that are returned, and returns their number.
    private static func attempt(_ alternative: inout Alternative, _ list: Int32, _ call: Call) throws(CallError) -> Int? {
        let channel = alternative.channel
        func choose() {
            channel.turn.store(choices.wrappingAdd(1, ordering: .relaxed).newValue, ordering: .relaxed)
            unsafe lua_rawgeti(call.lua, list, alternative.position)
        }
        if let item = alternative.item {
            switch channel.put(item) {
            case .full: return nil
            case .closed: throw .message(channel.refusalWhenClosed)
            case .sent: alternative.item = nil
            }
            choose()
            unsafe lua_pushboolean(call.lua, 1)
            return 2
        }
        switch channel.take() {
        case .empty: return nil
        case .closed:
            choose()
            try call.push([.nil, .string("closed")])
            return 3
        case .item(let item):
            choose()
            return try 1 + deliver(item, from: channel, call)
        }
    }
}
