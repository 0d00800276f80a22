import CLua
import CTestSupport
import TestSupport
import Testing

/// Decoding a corrupted parcel raises an error and does no other harm.
@Suite(.disabled(if: has_thread_sanitizer(), "one thread only")) struct MutationTests {
    private static let sources = [
        "return nil, true, 1, -1, 1.5, 'text', math.maxinteger, ('x'):rep(300)",
        "local t = { 1, 2, 3, { 'a', b = { c = {} } }, key = 'value', other = { key = 'again' } }; t.self = t; return t, t",
        "local n, m = 0, {}; local function add() n = n + 1; m[n] = add; return n end; return add, function() return n, m end",
        "limit = 3; function helper(x) return x + limit end; print = nil; return function(x) print = helper; return helper(x) end",
        "local t = {} for i = 1, 100 do t = { t, function() return t end } end return t",
        "return string.format, table, io.stdout, function() return math.floor, _G end",
        "return setmetatable({ 1 }, { __index = { x = 1 }, __len = function() end }), setmetatable({}, { __mode = 'k' })",
        """
        local M = {}
        local function rebuild(...) return { n = select('#', ...), ... } end
        M.__transfer = function(self) return rebuild, self.a, nil, self.b end
        local a = setmetatable({ a = { 1 } }, M)
        local b = setmetatable({ a = a, b = { a } }, M)
        b.b.b = b
        return { [a] = b, x = b }, function() return a, b end, b
        """,
        "local a, b = {}, {}; a[b], b[a] = a, b; return { a, { [a] = { [b] = function() return a, b end } } }",
    ]

    /// Removes the functions through which a corrupted parcel could do harm.
    private static let disarm = "for _, name in ipairs { 'execute', 'exit', 'remove', 'rename' } do os[name] = nil end io = nil load = nil"

    @Test func wrongBytesAreAnError() throws {
        try run(cases: 30_000, seed: UInt64.random(in: 0...UInt64.max))
    }

    @Test func everyPartOfAParcelIsAnError() throws {
        for source in Self.sources {
            let parcel = try State().encode(source)
            let receiver = State()
            let bytes = parcel.bytes
            for count in 0..<bytes.count {
                let status = receiver.decode(parcel, bytes: Array(bytes[..<count]), in: CLUA_FRESH_ENVIRONMENT)
                #expect(status != LUA_OK, "\(source) cut after \(count) bytes")
                receiver.count = 0
            }
        }
    }

    /// Lua reads a list of names as long as it says, and finds the line of any instruction. The altered lists take as many bytes as the right ones.
    @Test(arguments: [
        "80 81 8f 81 00 80 81 87 61 62 63 64 65 66",  // the line of an instruction that the function does not have
        "82 00 00 00 80 80 81 87 61 62 63 64 65 66",  // a line less
        "83 00 00 00 80 80 82 83 61 62 84 64 65 66",  // a name more
    ])
    func debugInformationFitsItsFunction(altered: String) throws {
        func bytes(_ text: String) -> [UInt8] { text.split(separator: " ").map { UInt8($0, radix: 16)! } }
        let right = bytes("83 00 00 00 80 80 81 87 61 62 63 64 65 66")
        let parcel = try State().encode(
            "return opscript.freeze { function() local abcdef = 1 return function() return abcdef end end }")
        let original = try parcel.bytesOfFrozen()
        let place = try #require(original.firstRange(of: right))
        #expect(parcel.receivedElsewhere(frozen: original) != nil)
        let wrong = original[..<place.lowerBound] + bytes(altered) + original[place.upperBound...]
        #expect(parcel.receivedElsewhere(frozen: Array(wrong)) == nil)
    }

    /// If a reader accepts wrong bytes, their values can be used, written again and released.
    @Test func wrongBytesOfFrozenValuesAreRefused() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededGenerator(seed: seed)
        let sender = State()
        let parcels = try [
            "local t = { 1, -2.5, 'text', true, false, ('y'):rep(300), { 'text', { x = 'text' } } }; t.t, t[t] = t, 'k' return opscript.freeze(t)",
            "return opscript.freeze { f = function(x) return x + 1 end, string.format, m = math, [1.5] = 2, [-3] = true, g = { function() return 2 end } }",
            "return opscript.freeze { opscript.freeze { 1, a = 2 }, b = opscript.freeze { {}, {} } }",
        ].map { try sender.encode($0) }
        let originals = try parcels.map { try $0.bytesOfFrozen() }
        for (parcel, original) in zip(parcels, originals) {
            for count in 0..<original.count { #expect(parcel.receivedElsewhere(frozen: Array(original[..<count])) == nil) }
            #expect(parcel.receivedElsewhere(frozen: original + [0]) == nil)
        }
        var receiver = State(), readCount = 0
        for number in 0..<30_000 {
            if number % 1000 == 0 {
                receiver = State()
                try receiver.run(Self.disarm)
                receiver.limitBytes = 64 << 20
            }
            let index = parcels.indices.randomElement(using: &random)!
            let bytes = Self.altered(originals[index], using: &random)
            guard let parcel = parcels[index].receivedElsewhere(frozen: bytes) else { continue }
            readCount += 1
            _ = try? parcel.bytesOfFrozen()
            try receiver.decode(parcel, in: CLUA_FRESH_ENVIRONMENT)
            #expect(throws: Never.self, "seed \(seed), case \(number)") {
                try receiver.run(
                    "local f = ... pcall(function() for k, v in pairs(f) do local _ = f[k] end return opscript.thaw(f) end)", arguments: 1)
            }
            receiver.count = 0
        }
        #expect(readCount > 1000)
        try receiver.run("collectgarbage() collectgarbage()")
    }

    private func run(cases: Int, seed: UInt64) throws {
        let parcels = try Self.sources.map { try State().encode($0) }
        var random = SeededGenerator(seed: seed)
        var receiver = State()
        for number in 0..<cases {
            if number % 1000 == 0 {
                receiver = State()
                try receiver.run(Self.disarm)
                receiver.limitBytes = 64 << 20
            }
            let parcel = parcels.randomElement(using: &random)!
            let bytes = Self.altered(parcel.bytes, using: &random)
            let environment = Bool.random(using: &random) ? CLUA_FRESH_ENVIRONMENT : CLUA_CURRENT_ENVIRONMENT
            let status = receiver.decode(parcel, bytes: bytes, in: environment)
            let expected = [LUA_OK, LUA_ERRRUN, LUA_ERRMEM, LUA_ERRERR].contains(status)
            #expect(expected && receiver.count >= (status == LUA_OK ? 0 : 1), "seed \(seed), case \(number)")
            receiver.count = 0
        }
        try receiver.run("collectgarbage() collectgarbage()")
    }

    /// Makes one to four changes: sets, flips, removes or adds a byte, or copies a piece to another place.
    private static func altered(_ original: [UInt8], using random: inout SeededGenerator) -> [UInt8] {
        var bytes = original
        for _ in 0...Int.random(in: 0..<4, using: &random) {
            guard let position = bytes.indices.randomElement(using: &random) else { break }
            switch Int.random(in: 0..<6, using: &random) {
            case 0: bytes[position] = UInt8.random(in: 0...255, using: &random)
            case 1: bytes[position] = UInt8.random(in: 0...30, using: &random)
            case 2: bytes[position] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            case 3: bytes.remove(at: position)
            case 4: bytes.insert(UInt8.random(in: 0...30, using: &random), at: position)
            default:
                let from = bytes.indices.randomElement(using: &random)!
                let piece = bytes[from..<min(bytes.count, from + Int.random(in: 1...16, using: &random))]
                for (offset, byte) in piece.enumerated() where position + offset < bytes.count { bytes[position + offset] = byte }
            }
        }
        return bytes
    }
}
