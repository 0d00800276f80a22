internal import CStore

/// The uses of work that are not written yet.
struct Uses {
    struct Use {
        var row: Int64
        var key: Digest
        var variant: Int64
        /// The record with the present signatures; nil if they have not changed.
        var body: [UInt8]?
    }

    private var list: [Use] = []

    /// Adds a use. Returns whether the uses are enough for a transaction.
    mutating func add(_ use: Use) -> Bool {
        list.append(use)
        return list.count >= 1024
    }

    mutating func take() -> [Use] {
        defer { list = [] }
        return list
    }
}

extension SQLite {
    /// Writes the uses. A row may have been deleted, and other work may have its number by now.
    func note(_ uses: [Uses.Use]) throws(SQLiteError) {
        let touch = try statement("UPDATE work SET used = ?1 WHERE id = ?2 AND key = ?3 AND variant = ?4")
        let refresh = try statement("UPDATE work SET used = ?1, body = ?5 WHERE id = ?2 AND key = ?3 AND variant = ?4")
        for use in uses {
            let statement = use.body == nil ? touch : refresh
            statement.bind(1, Clock.seconds)
            statement.bind(2, use.row)
            statement.bind(3, use.key.column)
            statement.bind(4, use.variant)
            if let body = use.body { statement.bind(5, body) }
            try run(statement)
        }
    }
}

extension Digest {
    /// The half of the digest that a column of the database has.
    var column: Int64 { Int64(bitPattern: low) }
}

enum Clock {
    /// Seconds since 1970.
    static var seconds: Int64 { cstore_file_clock() / 1_000_000_000 }
}
