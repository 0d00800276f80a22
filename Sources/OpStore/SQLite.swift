internal import CStore

/// An error that SQLite has returned.
struct SQLiteError: Error {
    let code: CInt
    let message: String

    /// The part that has failed.
    enum Cause {
        /// The file: it is no database, or its pages contradict each other.
        case damage
        /// The disk, memory, a permission, or another process.
        case environment
        /// A statement of ours, or the way in which we call SQLite.
        case mistake
    }

    var cause: Cause {
        // SQLITE_IOERR_DATA: a page has a wrong checksum. SQLITE_IOERR_CORRUPTFS blames the file system instead.
        if code == SQLITE_IOERR | 32 << 8 { return .damage }
        return switch code & 0xFF {
        case SQLITE_CORRUPT, SQLITE_NOTADB: .damage
        case SQLITE_PERM, SQLITE_BUSY, SQLITE_NOMEM, SQLITE_READONLY, SQLITE_IOERR, SQLITE_FULL, SQLITE_CANTOPEN, SQLITE_PROTOCOL,
            SQLITE_NOLFS, SQLITE_AUTH:
            .environment
        default: .mistake
        }
    }

    /// The text of the error for messages.
    var reason: String {
        if code & 0xFF == SQLITE_BUSY { return "another process has locked it for ten seconds" }
        return cause == .mistake ? "opscript bug: \(message), error \(code) of SQLite" : message
    }
}

/// A connection with its prepared statements.
///
/// Safety: SQLite does not lock it (SQLITE_OPEN_NOMUTEX). The thread that has taken it out of `Database` has it alone.
@safe
final class SQLite: @unchecked Sendable {
    /// The inode of the file when it was opened.
    let inode: UInt64
    private let handle: OpaquePointer
    private var statements: [StaticString.Key: Statement] = [:]
    /// When the connection took the snapshot that reads share; nil without a snapshot.
    private var snapshot: Int64?
    /// The number of writes of this process when a thread last took the connection.
    var writes = 0

    /// Opens a database, and makes the file if need be.
    init(path: String, inode: (String) -> UInt64) throws(SQLiteError) {
        var handle: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
        let code = unsafe sqlite3_open_v2(path, &handle, flags, nil)
        guard let opened = unsafe handle, code == SQLITE_OK else {
            let message = unsafe String(cString: sqlite3_errstr(code))
            unsafe sqlite3_close_v2(handle)
            throw SQLiteError(code: code, message: message)
        }
        unsafe self.handle = opened
        self.inode = inode(path)
        // Transactions are short, so only a stopped process causes a longer wait.
        unsafe sqlite3_busy_timeout(opened, 10_000)
    }

    deinit {
        for statement in statements.values { unsafe sqlite3_finalize(statement.handle) }
        unsafe sqlite3_close_v2(handle)
    }

    var error: SQLiteError {
        unsafe SQLiteError(code: sqlite3_extended_errcode(handle), message: String(cString: sqlite3_errmsg(handle)))
    }

    /// Runs statements that have no parameters and whose rows do not matter.
    func execute(_ text: String) throws(SQLiteError) {
        guard unsafe sqlite3_exec(handle, text, nil, nil, nil) == SQLITE_OK else { throw error }
    }

    /// The statement of a text, which is compiled once. It must be `reset` after use.
    func statement(_ text: StaticString) throws(SQLiteError) -> Statement {
        if let statement = statements[text.key] { return statement }
        var prepared: OpaquePointer?
        let code = text.withUTF8Buffer { utf8 in
            unsafe utf8.withMemoryRebound(to: CChar.self) {
                unsafe sqlite3_prepare_v3(handle, $0.baseAddress, CInt($0.count), UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil)
            }
        }
        guard code == SQLITE_OK, let prepared = unsafe prepared else { throw error }
        let statement = unsafe Statement(prepared)
        statements[text.key] = statement
        return statement
    }

    /// The number that a statement without parameters returns.
    func number(_ text: StaticString) throws(SQLiteError) -> Int {
        let statement = try statement(text)
        defer { statement.reset() }
        guard try step(statement) else { throw SQLiteError(code: SQLITE_INTERNAL, message: "\(text) has no row") }
        return statement.integer(0)
    }

    /// Steps the statement. Returns whether it has another row.
    func step(_ statement: Statement) throws(SQLiteError) -> Bool {
        switch unsafe sqlite3_step(statement.handle) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        default: throw error
        }
    }

    /// Runs a statement that has no rows.
    func run(_ statement: Statement) throws(SQLiteError) {
        defer { statement.reset() }
        while try step(statement) {}
    }

    /// Until `endReading`, reads see the database as it is now, or as it was a few milliseconds ago.
    ///
    /// A snapshot for each read would ask the system for the size of the database, and lock it: 7 per cent of the processor time of a build
    /// that has nothing to do.
    func beginReading() throws(SQLiteError) {
        let now = cstore_file_clock()
        if let snapshot, (0..<Self.snapshotLife).contains(now - snapshot) { return }
        endReading()
        try run(statement("BEGIN"))
        snapshot = now
    }

    private static let snapshotLife: Int64 = 10_000_000

    func endReading() {
        guard snapshot.take() != nil else { return }
        // After some errors, SQLite has ended the transaction itself.
        if unsafe sqlite3_get_autocommit(handle) == 0 { try? execute("COMMIT") }
    }

    /// Makes the changes of `body` together or not at all.
    func transaction<Result>(_ body: () throws(SQLiteError) -> Result) throws(SQLiteError) -> Result {
        try run(statement("BEGIN IMMEDIATE"))
        do {
            let result = try body()
            try run(statement("COMMIT"))
            return result
        } catch {
            // After some errors, SQLite has rolled back itself.
            if unsafe sqlite3_get_autocommit(handle) == 0 { try? execute("ROLLBACK") }
            throw error
        }
    }

    /// Reads the whole file. Returns whether it lacks one of these definitions although it is a store, or contradicts itself. Without an answer, the
    /// file counts as sound.
    func isDamaged(definitions: [String]) -> Bool {
        endReading()
        do throws(SQLiteError) {
            let found = try texts("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")
            if try number("PRAGMA application_id") != 0, !definitions.allSatisfy(found.contains) { return true }
        } catch {
            // The statement fits every database that can be read.
            return error.cause == .damage || error.code & 0xFF == SQLITE_ERROR
        }
        do throws(SQLiteError) {
            return try texts("PRAGMA integrity_check(1)") != ["ok"]
        } catch {
            return error.cause == .damage
        }
    }

    /// The first column of each row.
    private func texts(_ text: StaticString) throws(SQLiteError) -> [String] {
        let statement = try statement(text)
        defer { statement.reset() }
        var texts: [String] = []
        while try step(statement) { unsafe texts.append(String(decoding: statement.blob(0), as: UTF8.self)) }
        return texts
    }
}

/// A compiled statement. It belongs to its connection.
@safe
struct Statement {
    let handle: OpaquePointer

    init(_ handle: OpaquePointer) { unsafe self.handle = handle }

    /// SQLite copies the bytes at once.
    private static var transient: sqlite3_destructor_type { unsafe unsafeBitCast(-1, to: sqlite3_destructor_type.self) }

    func bind(_ index: CInt, _ number: Int64) { unsafe sqlite3_bind_int64(handle, index, number) }

    func bind(_ index: CInt, _ bytes: [UInt8]?) {
        guard let bytes else {
            unsafe sqlite3_bind_null(handle, index)
            return
        }
        // An empty array may have no address, and then `sqlite3_bind_blob64` would bind NULL.
        if bytes.isEmpty {
            unsafe sqlite3_bind_zeroblob(handle, index, 0)
        } else {
            _ = unsafe bytes.withUnsafeBytes { unsafe sqlite3_bind_blob64(handle, index, $0.baseAddress, UInt64($0.count), Self.transient) }
        }
    }

    func integer(_ column: CInt) -> Int { unsafe Int(sqlite3_column_int64(handle, column)) }

    /// Valid until the next row, or `reset`.
    func blob(_ column: CInt) -> UnsafeRawBufferPointer {
        let base = unsafe sqlite3_column_blob(handle, column)
        return unsafe UnsafeRawBufferPointer(start: base, count: Int(sqlite3_column_bytes(handle, column)))
    }

    func reset() {
        unsafe sqlite3_reset(handle)
        unsafe sqlite3_clear_bindings(handle)
    }
}

extension StaticString {
    /// Identifies a literal by its address.
    struct Key: Hashable {
        let address: UInt
    }

    var key: Key { unsafe Key(address: UInt(bitPattern: utf8Start)) }
}
