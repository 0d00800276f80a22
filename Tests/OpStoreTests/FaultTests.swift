import CStore
import StoreGraph
import TestSupport
import Testing

/// Disks that are full or fail, from each change of a file on.
@Suite struct FaultTests {
    @Test(arguments: ["full", "error"]) func aDiskThatFailsIsSaidOnceAndFailsNothing(fault: String) throws {
        var random = SeededGenerator(seed: 1)
        let whole = try Folder()
        StoreGraph(seed: 5, nodeCount: 8).writeSources(in: whole.path, using: &random)
        let expected = try HostRun(whole, seed: 5, nodes: 8)
        #expect(expected.status == 0)
        for change in stride(from: 0, to: 80, by: TestLength.isShort ? 7 : 1) {
            random = SeededGenerator(seed: 1)
            let folder = try Folder()
            StoreGraph(seed: 5, nodeCount: 8).writeSources(in: folder.path, using: &random)
            let run = try HostRun(folder, seed: 5, nodes: 8, [fault, "\(change)"])
            #expect(run.status == 0 || run.status == 2, "change \(change)")
            let warnings = run.output.filter { $0.hasPrefix("the store ") }
            #expect(warnings.count <= 1, "change \(change): \(warnings)")
            if run.status == 2 { #expect(warnings.first?.contains("cannot be ") == true, "change \(change)") }
            #expect(run.output.filter { !$0.hasPrefix("the store ") } == expected.output, "change \(change)")
            // The disk works again. The records are found, and nothing is damaged.
            let next = try HostRun(folder, seed: 5, nodes: 8)
            #expect(next.status == 0)
            #expect(next.output == expected.output, "change \(change)")
            let done = Set(run.events.filter { $0.hasPrefix("done ") }.map { $0.dropFirst(5) })
            let again = next.events.filter { $0.hasPrefix("runs ") }.map { $0.split(separator: " ")[1] }
            #expect(done.isDisjoint(with: again), "change \(change)")
        }
    }

    /// The answers of SQLite to a record, and the reasons that a warning names: nil if the file counts as damaged.
    static let answers: [(code: CInt, reason: String?)] = {
        func extended(_ code: CInt, _ number: CInt) -> CInt { code | number << 8 }
        func message(_ code: CInt) -> String { String(cString: sqlite3_errstr(code)) }
        let damage = [
            SQLITE_CORRUPT, extended(SQLITE_CORRUPT, 2), extended(SQLITE_CORRUPT, 3), SQLITE_NOTADB,
            // SQLITE_IOERR_DATA.
            extended(SQLITE_IOERR, 32),
        ]
        let environment = [
            SQLITE_PERM, SQLITE_NOMEM, SQLITE_READONLY, extended(SQLITE_READONLY, 4), SQLITE_FULL, SQLITE_CANTOPEN, SQLITE_PROTOCOL,
            SQLITE_AUTH,
            // SQLITE_IOERR_WRITE and SQLITE_IOERR_CORRUPTFS.
            extended(SQLITE_IOERR, 3), extended(SQLITE_IOERR, 33),
        ]
        let mistakes = [
            SQLITE_ERROR, extended(SQLITE_ERROR, 3), SQLITE_INTERNAL, SQLITE_LOCKED, SQLITE_TOOBIG, SQLITE_CONSTRAINT,
            // SQLITE_CONSTRAINT_UNIQUE.
            extended(SQLITE_CONSTRAINT, 8), SQLITE_MISMATCH, SQLITE_MISUSE, SQLITE_FORMAT, SQLITE_RANGE,
        ]
        return damage.map { ($0, nil) } + environment.map { ($0, message($0)) }
            + [SQLITE_BUSY, extended(SQLITE_BUSY, 2)].map { ($0, "another process has locked it for ten seconds") }
            + mistakes.map { ($0, "opscript bug: \(message($0)), error \($0) of SQLite") }
    }()

    @Test("Only what says that the file is damaged sets the store aside", arguments: answers)
    func answersOfSQLite(code: CInt, reason: String?) throws {
        var random = SeededGenerator(seed: 1)
        let folder = try Folder()
        StoreGraph(seed: 5, nodeCount: 8).writeSources(in: folder.path, using: &random)
        let first = try HostRun(folder, seed: 5, nodes: 8)
        #expect(first.status == 0)
        folder.write("another setting", to: "c0")
        let run = try HostRun(folder, seed: 5, nodes: 8, ["code", "0", "\(code)"])
        #expect(run.status == 2)
        let warnings = run.output.filter { $0.hasPrefix("the store ") }
        guard let reason else {
            #expect(folder.names().contains("store.db.damaged-1"))
            #expect(warnings.first?.contains("was set aside") == true)
            // Each new file is damaged as well, so the store gives up, at a write or at a look-up. The other thread may set a file aside after
            // this warning.
            #expect(warnings.contains { $0.contains("' cannot be written (") || $0.contains("' cannot be read (") }, "\(warnings)")
            return
        }
        let expected = "the store '\(folder.database)' cannot be written (\(reason)): what this run finishes from now on is not recorded"
        #expect(warnings == [expected])
        #expect(folder.names().allSatisfy { !$0.hasPrefix("store.db.") })
        // The records of the first run are still in the file.
        let next = try HostRun(folder, seed: 5, nodes: 8)
        #expect(next.status == 0)
        let skipped = run.events.filter { $0.hasPrefix("skipped ") }
        #expect(!skipped.isEmpty && next.events.filter { $0.hasPrefix("skipped ") } == skipped)
    }
}
