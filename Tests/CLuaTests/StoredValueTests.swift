import CLua
import Glibc
import TestSupport
import Testing

/// Values as the store keeps them.
@Suite struct StoredValueTests {
    private func store(_ source: String) throws -> (bytes: [UInt8], refusal: String?) {
        let parcel = try State().encode(source, as: CLUA_RESULTS)
        var bytes: UnsafeMutablePointer<UInt8>?, count = 0
        let refusal = unsafe clua_stored_write(parcel.pointer, &bytes, &count)
        defer { unsafe free(bytes) }
        return unsafe ([UInt8](UnsafeBufferPointer(start: bytes, count: count)), refusal.map { unsafe String(cString: $0) })
    }

    private func read(_ bytes: [UInt8]) -> Parcel? {
        let parcel = Parcel()
        let isRead = unsafe bytes.withUnsafeBufferPointer { unsafe clua_stored_read($0.baseAddress, $0.count, parcel.pointer) }
        return isRead ? parcel : nil
    }

    @Test(
        "Plain data comes back as it was",
        arguments: [
            ("return", "assert(select('#', ...) == 0)"),
            ("return nil, nil", "assert(select('#', ...) == 2)"),
            (
                "return 1, 2.5, 'x', true, -1 << 63, 0/0",
                "local a, b, c, d, e, f = ... assert(a == 1 and b == 2.5 and c == 'x' and d and e == math.mininteger and f ~= f)"
            ),
            (
                "local t = { 1, { 2 }, x = 'y' } t.t = t return t, t",
                "local a, b = ... assert(a == b and a.t == a and a[2][1] == 2 and a.x == 'y')"
            ),
            ("return ('long'):rep(100000)", "assert(... == ('long'):rep(100000))"),
            ("local t = 1 for i = 1, 1000 do t = { t } end return t", "local t = ... for i = 1, 1000 do t = t[1] end assert(t == 1)"),
            ("return setmetatable({ 1 }, { __name = 'x' })", "assert(getmetatable(...).__name == 'x')"),
        ])
    func plainData(source: String, check: String) throws {
        let parcel = try #require(read(try store(source).bytes))
        let receiver = State()
        try receiver.decode(parcel, in: CLUA_CURRENT_ENVIRONMENT)
        try receiver.run(check, arguments: receiver.count)
    }

    @Test(
        "A value that depends on the process is refused",
        arguments: [
            ("return function() end", "a function"), ("return { { print } }", "a part of a module"),
            ("return { [string] = 1 }", "a part of a module"),
            ("return _G", "a table of globals"),
        ])
    func refusals(source: String, refusal: String) throws {
        let stored = try store(source)
        #expect(stored.refusal == refusal && stored.bytes.isEmpty)
    }

    @Test("Truncated and altered bytes are refused, and do no harm")
    func damagedBytes() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededGenerator(seed: seed)
        let bytes = try store("local t = { 1, 2.5, 'text', x = { y = {} } } t.t = t return t, ('long'):rep(10000), { t }").bytes
        for count in 0..<bytes.count { #expect(read([UInt8](bytes[..<count])) == nil) }
        for number in 0..<TestLength.size(20_000) {
            var altered = bytes
            for _ in 0...Int.random(in: 0...2, using: &random) {
                altered[Int.random(in: 0..<altered.count, using: &random)] ^= UInt8.random(in: 1...255, using: &random)
            }
            if altered == bytes { continue }
            #expect(read(altered) == nil, "seed \(seed), case \(number)")
        }
    }

    @Test("Bytes with a right checksum and wrong contents decode or are refused")
    func forgedBytes() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededGenerator(seed: seed)
        let parcel = try State().encode("local t = { 1, 2.5, 'text', x = { y = {} } } t.t = t return t, { t }, 'text'", as: CLUA_RESULTS)
        let receiver = State()
        let bytes = parcel.bytes
        for _ in 0..<TestLength.size(20_000) {
            var altered = bytes
            altered[Int.random(in: 0..<altered.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            let status = unsafe altered.withUnsafeMutableBufferPointer { buffer in
                var forged = unsafe parcel.pointer.pointee
                unsafe (forged.bytes, forged.byte_count, forged.has_block) = (buffer.baseAddress, buffer.count, true)
                var written: UnsafeMutablePointer<UInt8>?, count = 0
                _ = unsafe clua_stored_write(&forged, &written, &count)
                defer { unsafe free(written) }
                var read = unsafe clua_parcel()
                guard unsafe clua_stored_read(written, count, &read) else { return LUA_OK }
                defer { unsafe clua_parcel_release(&read) }
                return unsafe clua_decode(receiver.lua, &read, CLUA_CURRENT_ENVIRONMENT)
            }
            #expect(status == LUA_OK || status == LUA_ERRRUN, "seed \(seed)")
            receiver.count = 0
        }
    }
}
