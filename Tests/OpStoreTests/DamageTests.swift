import CFaults
import CStore
import Glibc
import OpStore
import StoreGraph
import TestSupport
import Testing

/// Stores that are damaged, missing, or of another kind.
@Suite struct DamageTests {
    /// Records ten values.
    private func fill(_ folder: Folder) throws {
        let store = folder.store()
        for index in 0..<10 { #expect(try run(store, index) == .some(nil)) }
        store.close()
    }

    /// Runs a step with a value. Returns nil if it was skipped, and what was said if it was recorded or not.
    private func run(_ store: Store, _ index: Int) throws -> String?? {
        var step = Step(name: "\(index)", identity: "\(index)", components: [])
        step.components = [Step.Component(label: "index", digest: Digest(of: "\(index)"))]
        step.memoizes = true
        let expected = String(repeating: "value \(index) ", count: 300)
        let result = try store.run(step) { expected }
        #expect(result.value == expected)
        switch result.end {
        case nil: return nil
        case .recorded: return .some(nil)
        case .notRecorded(let reason): return .some(reason ?? "")
        }
    }

    private func execute(_ text: String, in folder: Folder) {
        var database: OpaquePointer?
        #expect(sqlite3_open(folder.database, &database) == SQLITE_OK)
        #expect(sqlite3_exec(database, text, nil, nil, nil) == SQLITE_OK)
        sqlite3_close(database)
    }

    @Test(arguments: [
        ("damaged-1", "file is not a database"), ("foreign-1", "it is not a store of opscript"),
        ("version-9", "it has version 9, and this opscript reads version 1"),
    ])
    func aFileThatIsNoStoreIsSetAside(name: String, reason: String) throws {
        let folder = try Folder()
        try fill(folder)
        switch name {
        case "damaged-1": folder.write(String(repeating: "no database ", count: 1000), to: ".opscript/store.db")
        case "foreign-1":
            folder.remove(".opscript/store.db")
            execute("CREATE TABLE a(b)", in: folder)
        default: execute("PRAGMA user_version = 9", in: folder)
        }
        let before = folder.read(".opscript/store.db")
        let store = folder.store()
        for index in 0..<10 { #expect(try run(store, index) == .some(nil)) }
        for index in 0..<10 { #expect(try run(store, index) == nil) }
        store.close()
        let other = "\(folder.database).\(name == "version-9" ? "version-9-1" : name)"
        #expect(
            folder.warnings.entries == [
                "the store '\(folder.database)' was set aside (\(reason)): it is now '\(other)', and work is done again"
            ])
        if name != "version-9" { #expect(StoreGraph.read(other).map { String(decoding: $0, as: UTF8.self) } == before) }
        let next = folder.store()
        for index in 0..<10 { #expect(try run(next, index) == nil) }
        #expect(folder.warnings.count == 1)
    }

    @Test(
        "A statement that fails in a sound store is a bug of ours, and loses nothing",
        arguments: [
            // A generic error, and a violated constraint.
            ("abs(-9223372036854775808)", "integer overflow, error 1 of SQLite"),
            ("RAISE(ABORT, 'refused')", "refused, error 1811 of SQLite"),
        ])
    func aMistakeOfOurs(expression: String, message: String) throws {
        let folder = try Folder()
        try fill(folder)
        execute("CREATE TRIGGER refuse BEFORE INSERT ON work BEGIN SELECT \(expression); END", in: folder)
        let store = folder.store()
        for index in 0..<10 { #expect(try run(store, index) == nil) }
        for index in 10..<12 { #expect(try run(store, index) == .some("")) }
        store.close()
        #expect(
            folder.warnings.entries == [
                "the store '\(folder.database)' cannot be written (opscript bug: \(message)): what this run finishes from now on is not recorded"
            ])
        #expect(folder.names().allSatisfy { !$0.hasPrefix("store.db.") })
        execute("DROP TRIGGER refuse", in: folder)
        let next = folder.store()
        for index in 0..<10 { #expect(try run(next, index) == nil) }
        for index in 10..<12 { #expect(try run(next, index) == .some(nil)) }
        #expect(folder.warnings.count == 1)
    }

    @Test(
        "A statement that fails because the file is not as we made it means damage",
        arguments: [
            ("ALTER TABLE work RENAME COLUMN used TO ased", "no such column: used"),
            ("DROP TABLE work", "no such table: work"),
            // A text in a column of numbers: the record that would have a later time violates a constraint.
            (
                """
                PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(replace(sql, ' STRICT', ''), 'used INTEGER', 'used TEXT');
                PRAGMA writable_schema = RESET; UPDATE work SET used = 'x'; PRAGMA writable_schema = ON;
                UPDATE sqlite_schema SET sql = replace(sql, 'used TEXT', 'used INTEGER') || ' STRICT' WHERE type = 'table';
                """, "cannot store TEXT value in INTEGER column work.used"
            ),
        ])
    func theFileIsToBlame(change: String, message: String) throws {
        let folder = try Folder()
        try fill(folder)
        execute(change, in: folder)
        let store = folder.store()
        for index in 10..<20 { #expect(try run(store, index) == .some(nil)) }
        for index in 10..<20 { #expect(try run(store, index) == nil) }
        let other = folder.database + ".damaged-1"
        #expect(
            folder.warnings.entries == [
                "the store '\(folder.database)' was set aside (\(message)): it is now '\(other)', and work is done again"
            ])
    }

    @Test("A store with wrong bytes gives right values, or none")
    func wrongBytes() throws {
        let seed = TestLength.number("OPSCRIPT_STORE_SEED").map(UInt64.init) ?? UInt64.random(in: 0...99_999)
        var random = SeededGenerator(seed: seed)
        let folder = try Folder()
        try fill(folder)
        let good = try #require(StoreGraph.read(folder.database))
        for round in 0..<TestLength.size(200) {
            var bytes = good
            switch Int.random(in: 0..<4, using: &random) {
            case 0: bytes.removeLast(Int.random(in: 1..<bytes.count, using: &random))
            case 1:
                let start = Int.random(in: 0..<bytes.count, using: &random)
                for index in start..<min(bytes.count, start + 4096) { bytes[index] = 0 }
            default:
                for _ in 0..<Int.random(in: 1...20, using: &random) {
                    bytes[Int.random(in: 0..<bytes.count, using: &random)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                }
            }
            StoreGraph.write(bytes, to: folder.database)
            let store = folder.store()
            // `run` compares the values. Earlier records are lost with the damaged file.
            for _ in 0..<3 { for index in 0..<10 { _ = try run(store, index) } }
            for index in 0..<10 { #expect(try run(store, index) == nil, "round \(round) of OPSCRIPT_STORE_SEED=\(seed)") }
            store.close()
            for name in folder.names() where name != "lock" { folder.remove(".opscript/" + name) }
        }
    }

    @Test func whatAnEarlierDatabaseHasLeftIsNotTakenForApartOfTheNewOne() throws {
        let folder = try Folder()
        let store = folder.store()
        for index in 0..<10 { _ = try run(store, index) }
        // The store is open, so its log is there.
        let log = try #require(StoreGraph.read(folder.database + "-wal"))
        #expect(log.count > 0)
        store.close()
        folder.remove(".opscript/store.db")
        StoreGraph.write(log, to: folder.database + "-wal")
        let next = folder.store()
        #expect(try run(next, 0) == .some(nil))
        #expect(try run(next, 0) == nil)
        #expect(folder.warnings.entries == [])
    }

    @Test func aStoreThatCannotBeMadeIsSaidOnce() throws {
        let folder = try Folder()
        folder.write("in the way", to: ".opscript")
        let store = folder.store()
        for index in 0..<3 { #expect(try run(store, index) == .some("")) }
        store.close()
        #expect(folder.warnings.count == 1)
        #expect(folder.warnings.entries.first?.hasPrefix("the store '\(folder.database)' cannot be ") == true)
        #expect(folder.read(".opscript") == "in the way")
    }

    @Test("A folder that may not be written: everything runs, and that is said once")
    func aReadOnlyFolder() throws {
        let folder = try Folder()
        var random = SeededGenerator(seed: 1)
        let graph = StoreGraph(seed: 1, nodeCount: 12)
        graph.writeSources(in: folder.path, using: &random)
        folder.makeFolder(".opscript")
        chmod(folder.path, 0o777)
        chmod(folder.path + "/.opscript", 0o555)
        defer { chmod(folder.path + "/.opscript", 0o755) }
        // A test that runs as root becomes another user there, because root may write everything.
        let user = getuid() == 0 ? 65534 : getuid()
        let run = try HostRun(folder, seed: 1, nodes: 12, ["user", "\(user)"])
        #expect(run.status == 2)
        #expect(run.events.filter { $0.hasPrefix("runs ") }.count == 12)
        #expect(run.events.filter { $0.hasPrefix("done ") }.isEmpty)
        #expect(run.output.filter { $0.hasPrefix("the store ") }.count == 1)
    }
}
