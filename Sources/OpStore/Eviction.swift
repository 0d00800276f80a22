/// Measures the database, and makes it smaller.
extension SQLite {
    /// The used part, in bytes. Free pages will be used again.
    private func size() throws(SQLiteError) -> Int {
        let pages = try number("PRAGMA page_count") - number("PRAGMA freelist_count")
        return try pages * number("PRAGMA page_size")
    }

    /// If the database is larger than `limit` bytes, deletes the least recently used work, and some more: the next work needs room, too.
    func evict(to limit: Int) throws(SQLiteError) {
        guard try size() > limit else { return }
        let delete = try statement("DELETE FROM work WHERE id IN (SELECT id FROM work ORDER BY used, id LIMIT ?1)")
        while try size() > limit - limit / 10 {
            let count = try number("SELECT count(*) FROM (SELECT 1 FROM work LIMIT 256)")
            // The last one stays, because it was just recorded.
            if count <= 1 { return }
            delete.bind(1, Int64(max(1, count / 16)))
            try run(delete)
        }
    }
}

extension Database {
    /// Gives the room of deleted work back to the file system, if the file has more than `limit` bytes.
    func shrink(to limit: Int) {
        maintain { connection throws(SQLiteError) in
            let pageSize = try connection.number("PRAGMA page_size")
            let excess = try connection.number("PRAGMA page_count") * pageSize - limit
            // If another process uses the database, the next run tries again.
            if excess > 0 { try? connection.execute("PRAGMA incremental_vacuum(\(excess / pageSize + 1))") }
        }
    }
}
