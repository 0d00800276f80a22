import CTestSupport
import Glibc
import OpStore
import StoreGraph
import TestSupport
import Testing

/// Work that is found again, and the reasons when it is not.
@Suite struct LookUpTests {
    @Test func aStepMayNameAPathTwice() throws {
        let folder = try Folder(), store = folder.store()
        for outputs in [["a.o", "a.d"], ["a.o", "./a.o"], ["a.o", "a.o", "a.d", "a.d"]] {
            var step = folder.step("compile", outputs: outputs)
            step.depfile = "a.d"
            try store.plan(step).end()
        }
    }

    @Test func finishedWorkIsFoundAgainInAnotherRun() throws {
        let folder = try Folder()
        folder.write("int x;", to: "a.c")
        let step = folder.step("compile", ["argument 1": "-O2"], inputs: ["a.c"], outputs: ["a.o"])
        let store = folder.store()
        #expect(
            try store.run(step) {
                folder.write("object", to: "a.o"); return nil
            }.ran == "never ran")
        #expect(try store.run(step).ran == nil)
        #expect(store.counts == Store.Counts(hits: 1, misses: 1, recorded: 1))
        store.close()
        #expect(try folder.store().run(step).ran == nil)
        #expect(folder.warnings.entries == [])
    }

    @Test func aRunWithoutStepsLeavesNoTrace() throws {
        let folder = try Folder()
        folder.store().close()
        #expect(folder.names() == [])
        let work = try folder.store().plan(folder.step("a"))
        guard case .miss = work.lookUp() else { Issue.record("found something"); return }
        #expect(folder.names() == [])
    }

    @Test func aReasonNamesWhatHasChanged() throws {
        let folder = try Folder()
        folder.write("a", to: "a.h")
        let store = folder.store()
        func ran(_ components: [String: String], inputs: [String] = ["a.h"], outputs: [String] = ["a.o"]) throws -> String? {
            try store.run(folder.step("compile", components, inputs: inputs, outputs: outputs)) {
                for output in outputs { folder.write("object", to: output) }
                return nil
            }.ran
        }
        let first = ["argument 2": "x", "environment variable 'CC'": "cc", "function 'compile'": "f"]
        #expect(try ran(first) == "never ran")
        #expect(try ran(first) == nil)
        folder.write("b", to: "a.h")
        #expect(try ran(first) == "input 'a.h' changed")
        folder.remove("a.h")
        #expect(try ran(first) == "input 'a.h' is missing")
        folder.write("c", to: "a.h")
        #expect(try ran(first) == "input 'a.h' is new")
        folder.remove("a.o")
        #expect(try ran(first) == "output 'a.o' is missing")
        folder.write("objecT", to: "a.o")
        #expect(try ran(first) == "output 'a.o' changed")
        var second = first
        second["argument 2"] = "y"
        #expect(try ran(second) == "argument 2 changed")
        second["environment variable 'CC'"] = "gcc"
        #expect(try ran(second) == "environment variable 'CC' changed")
        second["function 'compile'"] = "g"
        #expect(try ran(second) == "function 'compile' changed")
        second["version"] = "1"
        #expect(try ran(second) == "version is new")
        second["argument 2"] = nil
        #expect(try ran(second) == "argument 2 is gone")
        #expect(try ran(second, inputs: []) == "the list of inputs changed")
        #expect(try ran(second, inputs: [], outputs: ["b.o"]) == "the list of outputs changed")
        try store.run(folder.step("link", first))
        let more = first.merging(["a": "1", "b": "2", "c": "3", "d": "4"]) { $1 }
        #expect(try store.run(folder.step("link", more)).ran == "a is new, b is new, c is new and 1 more")
    }

    @Test func theOrderOfComponentsIsPartOfTheKey() throws {
        let folder = try Folder()
        let store = folder.store()
        var step = folder.step("a", ["x": "1", "y": "2"])
        try store.run(step)
        step.components.reverse()
        #expect(try store.run(step).ran == "the order of what it depends on changed")
    }

    @Test func aValueComesBackByteForByte() throws {
        let folder = try Folder()
        var random = SeededGenerator(seed: 1)
        let values: [[UInt8]] = [
            [], [0], Array(repeating: 7, count: 511), Array(repeating: 7, count: 100_000),
            (0..<3_000_000).map { _ in UInt8.random(in: .min ... .max, using: &random) },
        ]
        let store = folder.store()
        for round in 0..<2 {
            for (index, value) in values.enumerated() {
                var step = folder.step("value \(index)")
                step.memoizes = true
                step.components = [Step.Component(label: "index", digest: Digest(of: "\(index)"))]
                let work = try store.plan(step)
                switch work.lookUp() {
                case .hit(let hit): #expect(round == 1 && hit.value == value)
                case .miss:
                    #expect(round == 0)
                    #expect(work.begin().hit == nil)
                    #expect(value.withUnsafeBytes { work.finish(value: $0) } == .recorded)
                }
                work.end()
            }
        }
        #expect(store.counts.hits == values.count)
    }

    @Test func aStepThatNeedsAValueDoesNotFindWorkWithout() throws {
        let folder = try Folder()
        let store = folder.store()
        var step = folder.step("a")
        try store.run(step) { nil }
        step.memoizes = true
        #expect(try store.run(step) { "value" }.ran == "its value is not in the store")
        #expect(try store.run(step).value == "value")
    }

    @Test func componentsThatAreKnownLateArePartOfTheKey() throws {
        let folder = try Folder()
        let store = folder.store()
        func lookUp(_ text: String) throws -> String? {
            let work = try store.plan(folder.step("a", ["argument 1": "x"]))
            defer { work.end() }
            switch work.lookUp(adding: [Step.Component(label: "result of 'b'", digest: Digest(of: text))]) {
            case .hit: return nil
            case .miss(let reason):
                #expect(work.begin().hit == nil)
                #expect(work.finish(value: nil) == .recorded)
                return reason.description
            }
        }
        #expect(try lookUp("1") == "never ran")
        #expect(try lookUp("1") == nil)
        #expect(try lookUp("2") == "result of 'b' changed")
        #expect(try lookUp("1") == nil)
    }

    @Test("An earlier version of an input is found again, if the outputs are as they were")
    func earlierVersions() throws {
        let folder = try Folder()
        let store = folder.store()
        var step = folder.step("a", inputs: ["in"])
        step.memoizes = true
        for version in 0..<12 {
            folder.write("version \(version)", to: "in")
            #expect(try store.run(step) { "\(version)" }.ran == (version == 0 ? "never ran" : "input 'in' changed"))
        }
        for version in 4..<12 {
            folder.write("version \(version)", to: "in")
            #expect(try store.run(step).value == "\(version)")
        }
        folder.write("version 3", to: "in")
        #expect(try store.run(step) { "3" }.ran == "input 'in' changed", "only eight are kept")
    }

    @Test func aStoreMovesWithItsProject() throws {
        let folder = try Folder()
        folder.makeFolder("old")
        folder.write("a", to: "old/in")
        func run(_ name: String) throws -> String? {
            let store = Store(Store.Configuration(directory: "\(folder.path)/\(name)/.opscript") { _ in })
            defer { store.close() }
            var step = folder.step("a", inputs: ["in"], outputs: ["./out"])
            step.directory = "\(folder.path)/\(name)"
            return try store.run(step) {
                folder.write("b", to: "\(name)/out"); return nil
            }.ran
        }
        #expect(try run("old") == "never ran")
        #expect(rename(folder.path + "/old", folder.path + "/new") == 0)
        #expect(try run("new") == nil)
    }

    @Test func theFolderOfTheFilesMayBeMadeByABody() throws {
        let folder = try Folder()
        func run() throws -> (ran: String?, end: Work.Finish?) {
            let store = folder.store { $0.directory = folder.path + "/new/.opscript" }
            defer { store.close() }
            let result = try store.run(folder.step("a", outputs: ["new/out"])) {
                folder.makeFolder("new")
                folder.write("x", to: "new/out")
                return nil
            }
            return (result.ran, result.end)
        }
        let first = try run()
        #expect(first.ran == "never ran" && first.end == .recorded)
        #expect(try run().ran == nil)
    }

    @Test func everythingRunsIfThatIsWanted() throws {
        let folder = try Folder()
        let step = folder.step("a")
        try folder.store().run(step)
        let store = folder.store { $0.runsAlways = true }
        #expect(try store.run(step).ran == "all steps run")
        #expect(store.counts.recorded == 1)
        #expect(try folder.store().run(step).ran == nil)
    }

    @Test func aDryRunWritesNothingAndFollowsWhatWouldBeMade() throws {
        let folder = try Folder()
        folder.write("a", to: "a")
        let steps = [
            folder.step("b", inputs: ["a"], outputs: ["b"]), folder.step("c", inputs: ["b"], outputs: ["c"]),
            folder.step("d", inputs: ["a0"]),
        ]
        func run(dry: Bool) throws -> [String?] {
            let store = folder.store { $0.isDryRun = dry }
            defer { store.close() }
            return try steps.map { step in
                if !dry {
                    return try store.run(step) {
                        folder.write("x", to: step.name); return nil
                    }.ran
                }
                let work = try store.plan(step)
                defer { work.end() }
                return if case .miss(let reason) = work.lookUp() { reason.description } else { nil }
            }
        }
        #expect(try run(dry: true) == ["never ran", "never ran", "never ran"])
        #expect(folder.names() == [])
        #expect(try run(dry: false) == ["never ran", "never ran", "never ran"])
        #expect(try run(dry: true) == [nil, nil, nil])
        folder.write("changed", to: "a")
        #expect(try run(dry: true) == ["input 'a' changed", "input 'b' would be made again", nil])
        #expect(try run(dry: false) == ["input 'a' changed", nil, nil])
    }

    @Test("What another process has recorded since the look-up is found before the body runs")
    func recordedSinceTheLookUp() throws {
        let folder = try Folder()
        // A store reads from a snapshot only if there is a database.
        try folder.store().run(folder.step("first"))
        let step = folder.step("make", outputs: ["a"])
        let (mine, theirs) = (folder.store(), folder.store())
        let work = try mine.plan(step)
        guard case .miss = work.lookUp() else { Issue.record("found something"); return }
        let ran = try theirs.run(step) {
            folder.write("made", to: "a")
            return nil
        }
        #expect(ran.ran == "never ran" && ran.end == .recorded)
        #expect(work.begin().hit != nil)
        work.end()
        #expect(try mine.run(step).ran == nil)
    }

    @Test("Ten thousand steps are looked up by many threads at once")
    func manyThreads() throws {
        let folder = try Folder()
        let store = folder.store()
        let count = TestLength.size(2000)
        for round in 0..<2 {
            onThreads(8) { thread in
                for index in stride(from: thread, to: count, by: 8) {
                    var step = Step(name: "\(index)", identity: "\(index)", components: [])
                    step.components = [Step.Component(label: "index", digest: Digest(of: "\(index)"))]
                    step.memoizes = true
                    let result = try? store.run(step) { "value \(index)" }
                    #expect(result?.value == "value \(index)")
                    #expect((result?.ran == nil) == (round == 1))
                }
            }
        }
        #expect(store.counts == Store.Counts(hits: count, misses: count, recorded: count))
        #expect(folder.warnings.entries == [])
    }
}
