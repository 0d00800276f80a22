import Testing

@testable import LuaBindings

@Suite struct MakeFlagsTests {
    @Test(
        "The flags of make are found, and replaced by those of another jobserver",
        arguments: [
            ("", nil, nil, " -j4 --jobserver-auth=3,4"),
            ("k", nil, nil, "k -j4 --jobserver-auth=3,4"),
            (" -j3 --jobserver-auth=5,6", MakeFlags.Address.pipe(reading: 5, writing: 6), 3, " -j4 --jobserver-auth=3,4"),
            (" -j3 --jobserver-fds=5,6 -j", .pipe(reading: 5, writing: 6), nil, " -j4 --jobserver-auth=3,4"),
            ("ks -j8 --jobserver-auth=fifo:/tmp/a -- A=1 -j9", .fifo("/tmp/a"), 8, "ks -j4 --jobserver-auth=3,4 -- A=1 -j9"),
            (" -j3 --jobserver-auth=-2,-2", .pipe(reading: -2, writing: -2), 3, " -j4 --jobserver-auth=3,4"),
            ("--no-print-directory --jobserver-auth=none", nil, nil, "--no-print-directory -j4 --jobserver-auth=3,4"),
        ] as [(String, MakeFlags.Address?, Int?, String)])
    func flags(text: String, address: MakeFlags.Address?, placeCount: Int?, changed: String) {
        let flags = MakeFlags(text)
        #expect(flags.address == address && flags.placeCount == placeCount && flags.hasJobserver == (address != nil))
        #expect(flags.with(.pipe(reading: 3, writing: 4), placeCount: 4) == changed)
    }
}
