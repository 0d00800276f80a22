import CLua
import Glibc
import Testing

/// Parcels refer to long strings instead of copying them.
@Suite struct SharedStringTests {
    private static let million = "return ('0123456789'):rep(100000)"
    private static let check = "assert(... == ('0123456789'):rep(100000))"

    private func receive(_ parcel: Parcel, check: String = check) throws {
        let receiver = State()
        try receiver.decode(parcel, in: CLUA_CURRENT_ENVIRONMENT)
        try receiver.run(check, arguments: receiver.count)
    }

    @Test("Encoding does not copy a long string")
    func notCopied() throws {
        let sender = State()
        #expect(try sender.encode(Self.million).bytes.count < 16)
        #expect(try sender.encode("return { [('k'):rep(100000)] = ('v'):rep(100000) }").bytes.count < 32)
    }

    @Test("A parcel that refers to a long string it does not have is an error")
    func wrongNumber() throws {
        let parcel = try State().encode(Self.million)
        let receiver = State()
        receiver.decodeWithWrongBytes(parcel)
        // Flags, tag, number, end.
        #expect(receiver.decode(parcel, bytes: [0, parcel.bytes[1], 1, parcel.bytes[3]], in: CLUA_FRESH_ENVIRONMENT) == LUA_ERRRUN)
        #expect(receiver.decode(parcel, bytes: parcel.bytes, in: CLUA_FRESH_ENVIRONMENT) == LUA_OK)
    }

    @Test("A long string that was sent outlives the state that sent it")
    func outlivesItsState() throws {
        let parcel = try State().encode(Self.million)
        try receive(parcel)
        try receive(parcel)
    }

    @Test("Lua has a string in memory that is lent for it, one state at a time, and others have copies")
    func lent() throws {
        let sent = try State().encode(Self.million)
        let count = 1_000_000, room = 64
        let block = UnsafeMutableRawPointer.allocate(byteCount: room + count + 1, alignment: 16)
        defer { unsafe block.deallocate() }
        for index in 0..<count { unsafe block.storeBytes(of: 48 + UInt8(index % 10), toByteOffset: room + index, as: UInt8.self) }
        unsafe block.storeBytes(of: 1, as: UInt8.self)
        func hasRoom() -> Bool { unsafe block.load(as: UInt8.self) == 1 }
        let text = unsafe UnsafePointer((block + room).assumingMemoryBound(to: CChar.self))
        func decode(in state: State) throws -> Bool {
            let string = unsafe clua_wire_string_of_object(text, count, block, nil)
            var bytes: UnsafeMutablePointer<UInt8>?, byteCount = 0
            #expect(unsafe clua_wire_write(sent.pointer, nil, &bytes, &byteCount))
            defer { unsafe free(bytes) }
            let parcel = Parcel()
            #expect(unsafe clua_wire_read(bytes, byteCount, [string], 1, nil, 0, nil, 0, nil, parcel.pointer))
            try state.decode(parcel, in: CLUA_CURRENT_ENVIRONMENT)
            let address = unsafe UInt(bitPattern: lua_topointer(state.lua, -1))
            return UInt(bitPattern: block) < address && address < UInt(bitPattern: text)
        }
        let first = State(), second = State()
        #expect(try decode(in: first) && !hasRoom())
        #expect(try first.usedBytes() > count)
        #expect(try !decode(in: first))
        #expect(try !decode(in: second))
        // A string that is sent on is not copied either, and its bytes outlive it.
        unsafe lua_pushvalue(first.lua, 1)
        let onward = try first.encode(1, as: CLUA_STORED)
        try first.run(Self.check, arguments: 1)
        first.count = 0
        try second.run(Self.check, arguments: 1)
        #expect(try first.usedBytes() < count && hasRoom())
        try receive(onward)
        do {
            let third = State()
            #expect(try decode(in: third) && !hasRoom())
        }
        #expect(hasRoom())
        #expect(try decode(in: second))
        try second.run(Self.check, arguments: 1)
    }

    @Test("Sending a long string does not keep it alive in its state, yet other states can read it")
    func collected() throws {
        let sender = State()
        let before = try sender.usedBytes()
        let parcel = try sender.encode(Self.million)
        #expect(try sender.usedBytes() < before + 10_000)
        try sender.run("kept = ('y'):rep(1000000)")
        try receive(parcel)
    }

    @Test("Several parcels may share a long string, and may be released before or after it")
    func severalParcels() throws {
        let sender = State()
        try sender.run(Self.million)
        func send() throws -> Parcel {
            unsafe lua_pushvalue(sender.lua, 1)
            return try sender.encode(1, as: CLUA_STORED)
        }
        let first = try send()
        do { _ = try send() }
        let third = try send()
        sender.count = 0
        _ = try sender.usedBytes()
        try receive(first)
        try receive(third)
    }

    @Test("Long strings that were sent leak nothing, whatever the order of their release")
    func leaveNothing() throws {
        let sender = State(), receiver = State()
        func round() throws -> Int {
            var parcels: [Parcel] = []
            for number in 0..<200 {
                parcels.append(try sender.encode("return '\(number)' .. ('x'):rep(20000), ('y'):rep(30000)"))
                if parcels.count > 50 { parcels.remove(at: number * 7 % parcels.count) }
                if number % 20 == 0 { _ = try sender.usedBytes() }
            }
            for parcel in parcels {
                try receiver.decode(parcel, in: CLUA_CURRENT_ENVIRONMENT)
                try receiver.run("local a, b = ...; assert(#a > 20000 and a:find '^%d+x+$' and b == ('y'):rep(30000))", arguments: 2)
            }
            parcels = []
            let used = try sender.usedBytes() + receiver.usedBytes()
            #expect(unsafe clua_state_of(sender.lua).pointee.shared_strings.count == 0)
            return used
        }
        _ = try round()
        let before = try round(), after = try round()
        #expect(abs(after - before) < 20_000)
    }

    @Test("The captures of a function show the size of a long string")
    func captured() throws {
        let state = State()
        try state.run("local text = ('x'):rep(100000); return function() return text end")
        var failure = unsafe clua_failure()
        #expect(unsafe clua_captures(state.lua, 1, &failure) == LUA_OK)
        try state.run("local records = ... ; assert(records[1].name:find 'text' and records[1].size >= 100000)", arguments: 1)
    }
}
