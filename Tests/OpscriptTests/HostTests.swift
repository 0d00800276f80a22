import Testing

@Suite("The host program")
struct HostTests {
    @Test("examples/host builds as a package of its own and runs its scripts")
    func host() throws {
        let products = Paths.package + "/.build/host"
        // SwiftPM does not see new files of a package that lies beside: without its plan it looks again.
        var build = Command.shell(
            #"rm -f -- "$2"/*.yaml && swift build --package-path "$1" --scratch-path "$2""#, Paths.package + "/examples/host", products)
        build.environment["HOME"] = Paths.environment("HOME")
        build.timeout = 900
        let built = try build.run()
        try #require(built.status == 0, "\(built)")

        let outcome = try Command(program: products + "/debug/host", name: "host").run()
        let expected = "the sum is 12\nas expected: script:1: there is no such item\n"
        #expect(outcome == Outcome(status: 0, output: Array(expected.utf8), errors: []), "\(outcome)")
    }
}
