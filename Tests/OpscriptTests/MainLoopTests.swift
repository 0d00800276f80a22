import Testing

@Suite("The main loop program")
struct MainLoopTests {
    @Test("examples/mainloop builds as a package of its own and drains the main queue from two kinds of loop")
    func mainLoop() throws {
        let products = Paths.package + "/.build/mainloop"
        var build = Command(
            program: "swift", name: "swift",
            arguments: [
                "build", "--package-path", Paths.package + "/examples/mainloop", "--scratch-path", products, "--product", "mainloop",
            ])
        build.environment["HOME"] = Paths.environment("HOME")
        build.timeout = 900
        let built = try build.run()
        try #require(built.status == 0, "\(built)")

        let work = "1 squared is 1\n2 squared is 4\n3 squared is 9\nthat was all\n"
        for (loop, expected) in [("epoll", work + "the timer ticked as well\n"), ("dispatch", work)] {
            let outcome = try Command(program: products + "/debug/mainloop", name: "mainloop", arguments: [loop]).run()
            #expect(outcome == Outcome(status: 0, output: Array(expected.utf8), errors: []), "\(loop): \(outcome)")
        }
    }
}
