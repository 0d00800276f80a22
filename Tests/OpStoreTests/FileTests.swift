import Glibc
import OpStore
import StoreGraph
import TestSupport
import Testing

/// Inputs, outputs, patterns and depfiles.
@Suite struct FileTests {
    /// Runs a step with inputs, whose output has the number of the run.
    private func ran(_ folder: Folder, _ store: Store, _ step: Step, depfile: String? = nil) throws -> String? {
        try store.run(step) {
            for output in step.outputs { folder.write("output", to: output) }
            if let name = step.depfile, let depfile { folder.write(depfile, to: name) }
            return nil
        }.ran
    }

    @Test("A change at once after recording, with as many bytes, is seen")
    func changesWithinATick() throws {
        let folder = try Folder()
        let store = folder.store()
        let step = folder.step("a", inputs: ["in"], outputs: ["out"])
        folder.write("0000", to: "in")
        _ = try ran(folder, store, step)
        for number in 1...200 {
            folder.write("\(1000 + number)", to: "in")
            #expect(try ran(folder, store, step) == "input 'in' changed")
            folder.write("outpuT", to: "out")
            #expect(try ran(folder, store, step) == "output 'out' changed")
        }
    }

    @Test("A change whose mtime was set back is seen")
    func changesWithTheOldTime() throws {
        let folder = try Folder()
        let store = folder.store()
        let step = folder.step("a", inputs: ["in"])
        folder.write("1234", to: "in")
        var old = [timespec(tv_sec: 1_000_000_000, tv_nsec: 5), timespec(tv_sec: 1_000_000_000, tv_nsec: 5)]
        utimensat(AT_FDCWD, folder.path + "/in", &old, 0)
        _ = try ran(folder, store, step)
        for _ in 0..<20 { #expect(try ran(folder, store, step) == nil) }
        folder.write("4321", to: "in")
        utimensat(AT_FDCWD, folder.path + "/in", &old, 0)
        #expect(try ran(folder, store, step) == "input 'in' changed")
    }

    @Test func aFileThatIsWrittenAgainAsItWasIsNoChange() throws {
        let folder = try Folder()
        let step = folder.step("a", inputs: ["in"], outputs: ["out"])
        folder.write("same", to: "in")
        _ = try ran(folder, folder.store(), step)
        for _ in 0..<3 {
            folder.remove("in")
            folder.write("same", to: "in")
            #expect(try ran(folder, folder.store(), step) == nil)
        }
    }

    @Test func anInputThatChangesMeanwhileIsNotRecorded() throws {
        let folder = try Folder()
        let store = folder.store()
        folder.write("1", to: "in")
        folder.write("1", to: "a.in")
        let step = folder.step("a", inputs: ["in", "*.in"], outputs: ["out"])
        func end(_ body: () -> Void) throws -> Work.Finish? {
            try store.run(step) {
                folder.write("x", to: "out"); body(); return nil
            }.end
        }
        #expect(try end { folder.write("2", to: "in") } == .notRecorded("input 'in' changed while it ran"))
        #expect(try end { folder.write("2", to: "b.in") } == .notRecorded("the files of '*.in' changed while it ran"))
        #expect(try end { folder.remove("in") } == .notRecorded("input 'in' changed while it ran"))
        #expect(try end { folder.write("3", to: "in") } == .notRecorded("input 'in' changed while it ran"))
        // Another name for it is no change of what was read.
        #expect(try end { link(folder.path + "/in", folder.path + "/other") } == .recorded)
        #expect(try store.run(step).ran == nil)
    }

    @Test func onlyFilesCanBeInputsAndOutputs() throws {
        let folder = try Folder()
        let store = folder.store()
        folder.makeFolder("folder")
        #expect(mkfifo(folder.path + "/pipe", 0o666) == 0)
        func end(inputs: [String] = [], outputs: [String] = []) throws -> Work.Finish? {
            try store.run(folder.step("a", inputs: inputs, outputs: outputs)).end
        }
        #expect(try end(inputs: ["folder"]) == .notRecorded("its input 'folder' is not a file that can be read"))
        #expect(try end(inputs: ["pipe"]) == .notRecorded("its input 'pipe' is not a file that can be read"))
        #expect(try end(outputs: ["folder"]) == .notRecorded("its output 'folder' is not a file that can be read"))
        #expect(try end(outputs: ["out"]) == .notRecorded("it did not make its output 'out'"))
        // Reading the database would release its locks.
        try store.run(folder.step("b"))
        #expect(
            try end(inputs: [".opscript/store.db"]) == .notRecorded("its input '.opscript/store.db' is not a file that can be read"))
    }

    @Test func aPatternThatMatchesOthersIsAChange() throws {
        let folder = try Folder()
        let store = folder.store()
        folder.makeFolder("src")
        folder.write("1", to: "src/a.c")
        folder.write("1", to: "src/.hidden.c")
        let step = folder.step("a", inputs: ["src/**/*.c"], outputs: ["src/out.c"])
        #expect(try ran(folder, store, step) == "never ran")
        #expect(try ran(folder, store, step) == nil, "its own output is not an input")
        folder.makeFolder("src/deep")
        folder.write("2", to: "src/deep/b.c")
        #expect(try ran(folder, store, step) == "input 'src/deep/b.c' is new")
        folder.write("3", to: "src/deep/b.c")
        #expect(try ran(folder, store, step) == "input 'src/deep/b.c' changed")
        folder.remove("src/deep/b.c")
        #expect(try ran(folder, store, step) == nil, "that version is known")
        folder.remove("src/a.c")
        #expect(try ran(folder, store, step) == "input 'src/a.c' is missing")
        folder.write("x", to: "src/.hidden.c")
        #expect(try ran(folder, store, step) == nil)
    }

    @Test func aPatternIsExpandedAgainWhenAFolderHasChanged() throws {
        let folder = try Folder()
        folder.makeFolder("src")
        folder.makeFolder("src/deep")
        let store = folder.store()
        let step = folder.step("a", inputs: ["src/**/*.c", "none/*.c", "*.c", "*/x.h"])
        #expect(try ran(folder, store, step) == "never ran")
        for (number, name) in ["src/deep/a.c", "b.c", "src/x.h", "src/c.c"].enumerated() {
            // Old folders are remembered, new ones are not.
            for _ in 0..<8 - 2 * number { StoreGraph.waitForTick() }
            #expect(try ran(folder, store, step) == nil)
            folder.write("1", to: name)
            #expect(try ran(folder, store, step) == "input '\(name)' is new")
        }
        folder.makeFolder("none")
        folder.write("1", to: "none/d.c")
        #expect(try ran(folder, store, step) == "input 'none/d.c' is new")
        folder.makeFolder("other")
        #expect(symlink("other/e", folder.path + "/e.c") == 0)
        for _ in 0..<8 { StoreGraph.waitForTick() }
        #expect(try ran(folder, store, step) == nil, "it leads nowhere")
        folder.write("1", to: "other/e")
        #expect(try ran(folder, store, step) == "input 'e.c' is new")
        // A name that matches no file any more is a change, although the message cannot name the file.
        folder.remove("b.c")
        folder.makeFolder("b.c")
        #expect(try ran(folder, store, step) == "input 'b.c' is not a file that can be read")
    }

    @Test func theFilesOfADepfileAreInputs() throws {
        let folder = try Folder()
        let store = folder.store()
        for name in ["a.c", "a.h", "b h"] { folder.write("1", to: name) }
        var step = folder.step("a", inputs: ["a.c"], outputs: ["a.o"])
        step.depfile = "a.d"
        // A file that was written in the tick in which a body began may have been written after that.
        StoreGraph.waitForTick()
        let depfile = "a.o: a.c \\\n a.h b\\ h \(folder.path)/a.h a.o\na.h:\n"
        #expect(try ran(folder, store, step, depfile: depfile) == "never ran")
        #expect(try ran(folder, store, step) == nil)
        folder.write("2", to: "b h")
        StoreGraph.waitForTick()
        #expect(try ran(folder, store, step, depfile: depfile) == "input 'b h' changed")
        folder.write("2", to: "a.h")
        StoreGraph.waitForTick()
        #expect(try ran(folder, store, step, depfile: depfile) == "input 'a.h' changed")
        folder.remove("a.h")
        #expect(try ran(folder, store, step, depfile: "a.o: a.c b\\ h") == "input 'a.h' is missing")
        // Without the input, the header has no say.
        folder.write("3", to: "a.h")
        #expect(try ran(folder, store, step) == nil)
    }

    @Test func aDepfileThatIsNotThereOrNotUnderstoodIsSaid() throws {
        let folder = try Folder()
        let store = folder.store()
        var step = folder.step("a")
        step.depfile = "a.d"
        func end(_ text: String?) throws -> Work.Finish? {
            try store.run(step) {
                if let text { folder.write(text, to: "a.d") }; return nil
            }.end
        }
        folder.write("a: b", to: "a.d")
        #expect(try end(nil) == .notRecorded("it did not write its depfile 'a.d'"), "that of an earlier run does not count")
        #expect(try end("") == .notRecorded("its depfile 'a.d' has no rule"))
        #expect(try end("a: none") == .notRecorded("input 'none' of its depfile is not there"))
        #expect(
            try store.run(step) {
                folder.write("a: late", to: "a.d"); folder.write("1", to: "late"); return nil
            }.end == .notRecorded("input 'late' changed while it ran"))
        #expect(try end("a:") == .recorded)
    }

    @Test func whatAFailedBodyHasMadeIsRemoved() throws {
        let folder = try Folder()
        let store = folder.store()
        for keeps in [false, true] {
            var step = folder.step("a", outputs: ["out", "other"])
            step.depfile = "a.d"
            step.keepsOutputsOnFailure = keeps
            for ends in [false, true] {
                folder.write("old", to: "other")
                let work = try store.plan(step)
                work.fail()
                #expect(folder.read("other") == "old", "it has not begun")
                guard case .miss = work.lookUp() else { Issue.record("found failed work"); return }
                #expect(work.begin().hit == nil)
                folder.write("half", to: "out")
                folder.write("half", to: "other")
                folder.write("half", to: "a.d")
                // A stopped step ends without a message.
                if ends { work.end() } else { work.fail() }
                #expect(folder.read("out") == (keeps ? "half" : nil))
                #expect(folder.read("other") == (keeps ? "half" : nil))
                #expect(folder.read("a.d") == (keeps ? "half" : nil))
            }
        }
    }

    @Test func anotherAttemptCanSucceed() throws {
        let folder = try Folder()
        let work = try folder.store().plan(folder.step("a", outputs: ["out"]))
        _ = work.lookUp()
        #expect(work.begin().hit == nil)
        work.fail()
        #expect(work.begin().hit == nil)
        folder.write("x", to: "out")
        #expect(work.finish(value: nil) == .recorded)
        guard case .hit = work.lookUp() else { Issue.record("not found"); return }
    }

    @Test func twoStepsCannotClaimOneOutput() throws {
        let folder = try Folder()
        let store = folder.store()
        let first = try store.plan(folder.step("first", outputs: ["x/../out", "a"]))
        let error = #expect(throws: StoreError.self) { _ = try store.plan(folder.step("second", outputs: ["./a"])) }
        #expect(error?.description == "'first' and 'second' would both make 'a': give each of them an output of its own")
        // The first one has ended, but the run has not.
        let other = try store.plan(folder.step("other"))
        first.end()
        #expect(throws: StoreError.self) { _ = try store.plan(folder.step("second", outputs: ["a"])) }
        other.end()
        let second = try store.plan(folder.step("second", outputs: ["a"]))
        second.end()
        second.end()
        _ = try store.plan(folder.step("released", outputs: ["a"]))
        _ = try store.plan(folder.step("third", outputs: ["a"]))
    }

    @Test func aStepThatCannotBeIsAnError() throws {
        let folder = try Folder()
        let store = folder.store()
        #expect(throws: StoreError.outputIsInput(output: "a", of: "s")) {
            _ = try store.plan(folder.step("s", inputs: ["a"], outputs: ["./a"]))
        }
        #expect(throws: StoreError.invalidPath("", of: "s")) { _ = try store.plan(folder.step("s", inputs: [""])) }
        #expect(throws: StoreError.invalidPath("a\0", of: "s")) { _ = try store.plan(folder.step("s", outputs: ["a\0"])) }
        #expect(
            StoreError.outputIsInput(output: "a", of: "s").description
                == "'a' is an input and an output of 's': name it in one of the two lists, or write to another file")
        #expect(StoreError.invalidPath("", of: "s").description == "a path of 's' is empty")
    }
}
