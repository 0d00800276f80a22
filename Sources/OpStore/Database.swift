internal import CStore
import Glibc
import OpPlatform

/// The file of the store, and its idle connections.
final class Database: Sendable {
    private struct State {
        var idle: [SQLite] = []
        /// The inode of the present file. Others have been set aside.
        var inode: UInt64?
        /// The number of writes of this process. A snapshot from before the last one is out of date.
        var writes = 0
        /// The number of running bodies.
        var bodies = 0
        var isReadable = true
        var isWritable = true

        func endSnapshots() { for connection in idle { connection.endReading() } }
    }

    let path: String
    private let folder: String
    private let warn: @Sendable (String) -> Void
    private let state = SlowGuarded(State())
    /// Held while this process writes: SQLite's own way to wait for another writer is to try again after a while.
    private let writer = SlowGuarded(0)
    let locks: FileLocks

    /// - Parameter folder: An absolute path. The folder is made at the first write.
    init(folder: String, warn: @escaping @Sendable (String) -> Void) {
        self.folder = folder
        self.warn = warn
        path = folder + "/store.db"
        locks = FileLocks(path: folder + "/lock")
    }

    // MARK: Use

    /// Calls `body` with a connection. Returns nil after a warning if the database cannot be read, and without a warning if it does not
    /// exist yet.
    ///
    /// If the database turns out to be damaged, it is set aside, and `body` gets a new one.
    ///
    /// - Parameter isLatest: False if `body` may miss the writes of other processes in the last ten milliseconds.
    func read<Result>(isLatest: Bool = false, _ body: (SQLite) throws(SQLiteError) -> Result) -> Result? {
        use(forWriting: false) { connection throws(SQLiteError) in
            if isLatest { connection.endReading() }
            try connection.beginReading()
            return try body(connection)
        }
    }

    /// Ends the snapshots, when no step is left that reads. Snapshots keep other processes from emptying the log.
    func endReading() { state.withLock { $0.endSnapshots() } }

    /// A body begins, and may run for hours. Until it ends, each snapshot ends with its look-up.
    func bodyBegins() {
        state.withLock { state in
            state.bodies += 1
            state.endSnapshots()
        }
    }

    /// A body has returned.
    func bodyEnds() { state.withLock { $0.bodies -= 1 } }

    /// Calls `body` in a transaction. Returns nil, after a warning, if the database cannot be written.
    func write<Result: Sendable>(_ body: (SQLite) throws(SQLiteError) -> Result) -> Result? {
        writer.withLock { _ in
            defer { state.withLock { $0.writes += 1 } }
            endReading()
            return use(forWriting: true) { connection throws(SQLiteError) in
                connection.endReading()
                return try connection.transaction { () throws(SQLiteError) in try body(connection) }
            }
        }
    }

    /// Calls `body` with a connection, if one exists, while no other thread of this process writes.
    func maintain(_ body: (SQLite) throws(SQLiteError) -> Void) {
        if state.withLock(\.inode) == nil { return }
        writer.withLock { _ in
            endReading()
            _ = use(forWriting: false) { connection throws(SQLiteError) in
                connection.endReading()
                try body(connection)
            }
        }
    }

    /// Makes the folder, so that the file of locks has a place.
    func prepareToWrite() { if Self.inode(of: folder) == nil { makeFolder() } }

    /// Closes the idle connections. No connections are given out afterwards.
    func close() {
        let idle = state.withLock { state in
            (state.isReadable, state.isWritable) = (false, false)
            return state.idle.take()
        }
        _ = idle
    }

    private func use<Result>(forWriting: Bool, _ body: (SQLite) throws(SQLiteError) -> Result) -> Result? {
        var setAside = 0
        while true {
            var damaged: SQLite?
            do throws(SQLiteError) {
                guard let connection = try take(forWriting: forWriting) else { return nil }
                damaged = connection
                let result = try body(connection)
                giveBack(connection)
                return result
            } catch {
                guard let damaged, setAside < Self.replacements, isDamage(error, of: damaged) else {
                    giveUp(error, forWriting: forWriting)
                    return nil
                }
                self.setAside(damaged.inode, as: "damaged", because: error.message)
                setAside += 1
            }
        }
    }

    /// The number of files that one call may set aside. A disk that damages all writes would produce one after another.
    private static let replacements = 2

    private func take(forWriting: Bool) throws(SQLiteError) -> SQLite? {
        let (idle, writes, isAllowed) = state.withLock { state in
            (state.idle.popLast(), state.writes, forWriting ? state.isWritable : state.isReadable)
        }
        if !isAllowed { return nil }
        if let idle {
            if idle.writes != writes { idle.endReading() }
            idle.writes = writes
            return idle
        }
        return try open(forWriting: forWriting)
    }

    private func giveBack(_ connection: SQLite) {
        state.withLock { state in
            if state.bodies > 0 { connection.endReading() }
            if state.isReadable, state.inode == connection.inode { state.idle.append(connection) }
        }
    }

    private func giveUp(_ error: SQLiteError, forWriting: Bool) {
        // Warn once: a disk that cannot be written may soon be unreadable, too.
        let isFirst = state.withLock { state in
            defer {
                state.isWritable = false
                if !forWriting { state.isReadable = false }
            }
            return state.isReadable && state.isWritable
        }
        if !isFirst { return }
        warn(
            forWriting
                ? "the store '\(path)' cannot be written (\(error.reason)): what this run finishes from now on is not recorded"
                : "the store '\(path)' cannot be read (\(error.reason)): nothing is skipped from now on")
    }

    /// Whether the file is to blame. A statement that fails is our mistake, unless the file proves to be damaged: another name in the definition of
    /// a table makes it fail, too.
    private func isDamage(_ error: SQLiteError, of connection: SQLite) -> Bool {
        switch error.cause {
        case .damage: true
        case .environment: false
        case .mistake: connection.isDamaged(definitions: Self.definitions)
        }
    }

    // MARK: Opening

    private static let identifier = 0x6F70_7374  // "opst"
    private static let version = 1

    private static func inode(of path: String) -> UInt64? {
        var found = stat()
        return unsafe stat(path, &found) == 0 ? UInt64(found.st_ino) : nil
    }

    private func open(forWriting: Bool) throws(SQLiteError) -> SQLite? {
        if Self.inode(of: path) == nil {
            if !forWriting { return nil }
            makeFolder()
        }
        for _ in 0...Self.replacements {
            var unusable: (inode: UInt64, name: String, reason: String)?
            let connection = try locks.exclusively { () throws(SQLiteError) -> SQLite? in
                // SQLite would take the files of an earlier database for a part of the new one.
                if Self.inode(of: path) == nil { for suffix in ["-wal", "-shm"] { unsafe unlink(path + suffix) } }
                let connection = try SQLite(path: path) { Self.inode(of: $0) ?? 0 }
                do throws(SQLiteError) {
                    if let (name, reason) = try prepare(connection) { unusable = (connection.inode, name, reason) }
                } catch  where isDamage(error, of: connection) {
                    unusable = (connection.inode, "damaged", error.message)
                }
                return unusable == nil ? connection : nil
            }
            guard let (inode, name, reason) = unusable else {
                state.withLock { $0.inode = connection?.inode }
                return connection
            }
            setAside(inode, as: name, because: reason)
            if Self.inode(of: path) == inode {
                throw SQLiteError(code: SQLITE_CANTOPEN, message: "it is not a store, and cannot be renamed")
            }
        }
        throw SQLiteError(code: SQLITE_CANTOPEN, message: "new ones are damaged as well")
    }

    /// Makes the folder, and those above it. Opening the database reports any failure.
    private func makeFolder() {
        Paths.makeFolder(folder)
        // The folder does not belong into a repository.
        let file = unsafe Glibc.open(folder + "/.gitignore", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
        if file >= 0 {
            unsafe _ = Glibc.write(file, "*\n", 2)
            Glibc.close(file)
        }
    }

    /// Makes the tables if the file is new. Returns a description of the file if it is not a store of this version.
    private func prepare(_ connection: SQLite) throws(SQLiteError) -> (name: String, reason: String)? {
        let identifier = try connection.number("PRAGMA application_id")
        let version = try connection.number("PRAGMA user_version")
        let tableCount = try connection.number("SELECT count(*) FROM sqlite_schema")
        let isNew = identifier == 0 && tableCount == 0
        if !isNew {
            if identifier != Self.identifier { return ("foreign", "it is not a store of opscript") }
            if version != Self.version {
                return ("version-\(version)", "it has version \(version), and this opscript reads version \(Self.version)")
            }
        }
        // NORMAL: a power failure may undo the latest transactions, but damages nothing, and a killed process loses nothing.
        try connection.execute("PRAGMA synchronous = NORMAL; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF")
        if !isNew { return nil }
        try connection.execute("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL")
        try connection.transaction { () throws(SQLiteError) in try connection.execute(Self.tables) }
        return nil
    }

    /// The numbers are halves of digests. If two are equal by chance, the digests in `body` tell them apart.
    private static let definitions = [
        """
        CREATE TABLE work(id INTEGER PRIMARY KEY, key INTEGER NOT NULL, variant INTEGER NOT NULL, identity INTEGER NOT NULL,
            used INTEGER NOT NULL, body BLOB NOT NULL, value BLOB) STRICT
        """,
        "CREATE UNIQUE INDEX work_key ON work(key, variant)",
        "CREATE INDEX work_identity ON work(identity)",
        "CREATE INDEX work_used ON work(used)",
    ]

    private static var tables: String {
        (definitions + ["PRAGMA application_id = \(identifier)", "PRAGMA user_version = \(version)"]).joined(separator: ";\n")
    }

    // MARK: Setting aside

    /// Renames the database, unless another process has done so.
    private func setAside(_ inode: UInt64, as name: String, because reason: String) {
        let newPath = locks.exclusively { () -> String? in
            state.withLock { state in
                state.idle = []
                state.inode = nil
            }
            guard Self.inode(of: path) == inode else { return nil }
            var number = 1
            while Self.inode(of: "\(path).\(name)-\(number)") != nil { number += 1 }
            let newPath = "\(path).\(name)-\(number)"
            guard unsafe rename(path, newPath) == 0 else { return nil }
            unsafe rename(path + "-wal", newPath + "-wal")
            unsafe unlink(path + "-shm")
            return newPath
        }
        if let newPath { warn("the store '\(path)' was set aside (\(reason)): it is now '\(newPath)', and work is done again") }
    }
}

extension Array {
    fileprivate mutating func take() -> Self {
        defer { self = [] }
        return self
    }
}
