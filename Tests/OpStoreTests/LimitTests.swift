import CStore
import Glibc
import OpStore
import TestSupport
import Testing

/// How large a store gets.
@Suite struct LimitTests {
    private func size(_ path: String) -> Int {
        var found = stat()
        return stat(path, &found) == 0 ? Int(found.st_size) : 0
    }

    private func step(_ index: Int) -> Step {
        var step = Step(name: "\(index)", identity: "\(index)", components: [])
        step.components = [Step.Component(label: "index", digest: Digest(of: "\(index)"))]
        step.memoizes = true
        return step
    }

    /// A value that compression does not make shorter.
    private func value(_ count: Int, seed: Int) -> [UInt8] {
        var random = SeededGenerator(seed: UInt64(seed))
        return (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &random) }
    }

    private func record(_ store: Store, _ index: Int, _ bytes: [UInt8]) throws -> Work.Finish {
        let work = try store.plan(step(index))
        _ = work.lookUp()
        _ = work.begin()
        return bytes.withUnsafeBytes { work.finish(value: $0) }
    }

    private func isThere(_ store: Store, _ index: Int) throws -> Bool {
        if case .hit = try store.plan(step(index)).lookUp() { true } else { false }
    }

    @Test func whatWasUsedLeastRecentlyGoes() throws {
        let folder = try Folder()
        let store = folder.store { $0.limit = 1 << 20 }
        for index in 0..<20 { #expect(try record(store, index, value(20_000, seed: index)) == .recorded) }
        // All were recorded a day ago, and one was used now.
        var database: OpaquePointer?
        #expect(sqlite3_open(folder.database, &database) == SQLITE_OK)
        #expect(sqlite3_exec(database, "UPDATE work SET used = used - 86400", nil, nil, nil) == SQLITE_OK)
        sqlite3_close(database)
        #expect(try isThere(store, 3))
        store.close()
        let other = folder.store { $0.limit = 1 << 20 }
        for index in 20..<60 { #expect(try record(other, index, value(20_000, seed: index)) == .recorded) }
        #expect(try isThere(other, 3))
        #expect(try !isThere(other, 2))
        #expect(try isThere(other, 59))
        other.close()
        #expect(size(folder.database) <= 1 << 20)
        #expect(folder.warnings.entries == [])
    }

    @Test("New work stays even if the clock was set back")
    func aClockThatWasSetBack() throws {
        let folder = try Folder()
        let store = folder.store { $0.limit = 200_000 }
        for index in 0..<5 { #expect(try record(store, index, value(20_000, seed: index)) == .recorded) }
        var database: OpaquePointer?
        #expect(sqlite3_open(folder.database, &database) == SQLITE_OK)
        #expect(sqlite3_exec(database, "UPDATE work SET used = used + 86400", nil, nil, nil) == SQLITE_OK)
        sqlite3_close(database)
        for index in 5..<30 {
            #expect(try record(store, index, value(20_000, seed: index)) == .recorded)
            #expect(try isThere(store, index))
        }
    }

    @Test func aSmallerLimitMakesTheFileSmaller() throws {
        let folder = try Folder()
        let store = folder.store()
        for index in 0..<40 { _ = try record(store, index, value(50_000, seed: index)) }
        store.close()
        #expect(size(folder.database) > 2_000_000)
        let smaller = folder.store { $0.limit = 500_000 }
        _ = try record(smaller, 40, value(50_000, seed: 40))
        #expect(try isThere(smaller, 40))
        smaller.close()
        #expect(size(folder.database) <= 500_000)
    }

    @Test func aValueThatIsTooLargeIsNotRecorded() throws {
        let folder = try Folder()
        let store = folder.store { $0.limit = 100_000 }
        #expect(try record(store, 0, value(50_001, seed: 0)) == .notRecorded("its value of 50001 bytes is larger than the store keeps"))
        #expect(try record(store, 1, value(50_000, seed: 0)) == .recorded)
        #expect(try isThere(store, 1))
    }

    @Test func valuesAreCompressed() throws {
        let folder = try Folder()
        let store = folder.store()
        _ = try record(store, 0, Array(repeating: 1, count: 10_000_000))
        store.close()
        #expect(size(folder.database) < 100_000)
    }
}
