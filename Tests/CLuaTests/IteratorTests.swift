import CLua
import Testing

/// Iterators of the standard libraries that are sent.
@Suite struct IteratorTests {
    @Test("Iterators that are one function arrive as those of the receiver")
    func functions() throws {
        let source =
            "local t = { 'a', 'b' } local f, s, i = ipairs(t) local n, t = pairs(t) return f, s, i, { [f] = f, f }, n, t, function() return f end"
        try roundTrip(
            source,
            check: """
                local f, s, i, list, n, t, body = ...
                assert(f == ipairs {} and n == next and s == t and i == 0 and list[1] == f and list[f] == f and body() == f)
                local all = ''
                for _, v in f, s, i do all = all .. v end
                for _, v in n, t do all = all .. v end
                assert(all == 'abab')
                """)
        try roundTrip(
            "local codes, lax = utf8.codes 'ä', utf8.codes('ä', true) return codes, lax",
            check: """
                local codes, lax = ...
                assert(codes == utf8.codes '' and lax == utf8.codes('', true) and codes ~= lax)
                """)
    }

    @Test(
        "An iterator of string.gmatch that has not begun arrives",
        arguments: [
            ("'a1b22', '%d+'", "1 22"), ("'a1b22', '%d+', 3", "22"), ("'a1b22', '()', -1", "5 6"), ("'abc', '', 4", ""),
            ("'abc', '.', 9", nil),
            ("('x'):rep(100000) .. 'y', 'y'", "y"), ("'a\\0b', '%z'", "\0"),
        ])
    func gmatch(_ arguments: String, _ found: String?) throws {
        try roundTrip(
            "local f = string.gmatch(\(arguments)) return f, { f }, function() return f end",
            check: """
                local f, list, body = ...
                assert(list[1] == f and body() == f)
                local all
                for v in f do all = (all and all .. ' ' or '') .. v end
                assert(all == \(found.map { "'\($0.replacing("\0", with: "\\0"))'" } ?? "nil"))
                """)
    }

    @Test("What replaces string.gmatch and ipairs does not matter")
    func replaced() throws {
        try roundTrip(
            "local f, g = ('a b'):gmatch '%a', ipairs {} string.gmatch, ipairs = error, error return f, g",
            check: "local f, g = ... assert(f() == 'a' and f() == 'b' and f() == nil and g({ 1 }, 0) == 1)")
    }
}
