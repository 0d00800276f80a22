internal import CStore

extension Store {
    /// The store writes the use of a row once in so many seconds. A build without changes should write nothing.
    private static let useGranularity: Int64 = 3600
    /// The number of versions of the inputs that the store keeps for one key.
    private static let versions = 8

    // MARK: Finding

    /// Looks for work with this key and with unchanged files. `components` are those that were unknown when the step was planned.
    func find(_ step: ResolvedStep, _ key: Digest, _ components: [Step.Component]) -> Work.LookUp {
        let found: Work.LookUp? = database.read { connection throws(SQLiteError) in
            if let found = try find(step, key, in: connection) { return found }
            return .miss(try whatChanged(step.identity, step.components(adding: components), in: connection))
        }
        return found ?? .miss(Reason([.neverRan]))
    }

    /// Like `find`, but also among the latest writes of other processes, and without the differences.
    func hit(_ step: ResolvedStep, _ key: Digest) -> Work.Hit? {
        let found = database.read(isLatest: true) { connection throws(SQLiteError) in try find(step, key, in: connection) }
        return if case .hit(let hit)?? = found { hit } else { nil }
    }

    /// Nil if the store has no work with the key.
    private func find(_ step: ResolvedStep, _ key: Digest, in connection: SQLite) throws(SQLiteError) -> Work.LookUp? {
        let statement = try connection.statement("SELECT id, used, body, value, variant FROM work WHERE key = ?1")
        defer { statement.reset() }
        statement.bind(1, key.column)
        // The most similar work. Of equally similar work, the latest.
        var nearest: (row: Int64, changes: [Reason.Change])?
        while try connection.step(statement) {
            guard let record = unsafe RecordReader(statement.blob(2)) else { throw SQLiteError.damagedRow }
            if record.key != key { continue }
            let row = Int64(statement.integer(0))
            var present: [(offset: Int, state: FileState)] = []
            var changes = changes(of: record, step, &present)
            if changes.isEmpty, step.memoizes, record.value == nil { changes = [.valueIsMissing] }
            if !changes.isEmpty {
                if let (other, fewest) = nearest, (changes.count, other) > (fewest.count, row) { continue }
                nearest = (row, changes)
                continue
            }
            let value = try record.value.map { value throws(SQLiteError) in try unsafe value.decoded(statement.blob(3)) }
            let isOld = Clock.seconds - Int64(statement.integer(1)) > Self.useGranularity
            if isOld || !present.isEmpty {
                let body = present.isEmpty ? nil : record.refreshed(present)
                note(Uses.Use(row: row, key: key, variant: Int64(statement.integer(4)), body: body))
            }
            return .hit(Work.Hit(value: value))
        }
        return nearest.map { .miss(Reason($0.changes)) }
    }

    /// The differences from the record. `present` gets the new states of files that have a new signature and the same contents.
    private func changes(
        of record: RecordReader, _ step: ResolvedStep, _ present: inout [(offset: Int, state: FileState)]
    ) -> [Reason.Change] {
        var changes: [Reason.Change] = []
        // The patterns whose matches have changed, their present matches, and the recorded inputs.
        var patterns: [String] = [], matches: [String] = [], inputs: Set<String> = []
        record.forEachFile { file in
            if file.role == .pattern {
                let now = step.matches(of: file.path, in: files)
                if ResolvedStep.digest(ofMatches: now) != file.state.digest {
                    patterns.append(file.path)
                    matches += now
                }
                return true
            }
            let status = unsafe file.withPath { unsafe files.status(of: $0) }
            if !matches.isEmpty { inputs.insert(file.path) }
            let isKnown = file.state.isSettled && Digest(status.signature) == file.state.signature
            if isKnown, !configuration.isDryRun { return true }
            let path = file.path
            if isKnown, !wouldBeMade(path) { return true }
            let now = files.state(of: path)
            if let change = change(of: file, now, path) {
                changes.append(change)
            } else if now.isSettled, now.signature != file.state.signature || !file.state.isSettled {
                present.append((file.offset, now))
            }
            return true
        }
        changes += matches.filter { !inputs.contains($0) }.map { .inputIsNew($0) }
        return changes.isEmpty ? patterns.map { .changed("what '\($0)' matches") } : changes
    }

    private func change(of file: RecordReader.File, _ now: FileState, _ path: String) -> Reason.Change? {
        if file.role == .output {
            return now.hasContents(of: file.state) ? nil : now.kind == .absent ? .outputIsMissing(path) : .outputChanged(path)
        }
        if wouldBeMade(path) { return .inputWouldBeMade(path) }
        if now.hasContents(of: file.state) { return nil }
        if now.kind == .other { return .inputIsNoFile(path) }
        if now.kind == .absent { return .inputIsMissing(path) }
        return file.state.kind == .absent ? .inputIsNew(path) : .inputChanged(path)
    }

    /// The differences between the components and those of the most similar work among the latest.
    private func whatChanged(_ identity: Digest, _ components: [Step.Component], in connection: SQLite) throws(SQLiteError) -> Reason {
        let statement = try connection.statement("SELECT body FROM work WHERE identity = ?1 ORDER BY id DESC LIMIT 8")
        defer { statement.reset() }
        statement.bind(1, identity.column)
        var fewest: [Reason.Change]?
        while try connection.step(statement) {
            guard let record = unsafe RecordReader(statement.blob(0)) else { throw SQLiteError.damagedRow }
            if record.identity != identity { continue }
            let changes = Self.changes(from: record.components, to: components)
            if fewest == nil || changes.count < fewest!.count { fewest = changes }
        }
        return Reason(fewest ?? [.neverRan])
    }

    private static func changes(from old: [RecordReader.Component], to new: [Step.Component]) -> [Reason.Change] {
        let before = Dictionary(old.map { ($0.label, $0) }) { first, _ in first }
        let labels = Set(new.map(\.label))
        var changes: [Reason.Change] = new.compactMap { component in
            guard let known = before[component.label] else { return .isNew(component.label) }
            if known.digest == component.digest { return nil }
            return component.firstLine(differingFrom: known.lines).map { .changedInLine(component.label, $0) } ?? .changed(component.label)
        }
        changes += old.filter { !labels.contains($0.label) }.map { .isGone($0.label) }
        return changes.isEmpty ? [.changed("the order of what it depends on")] : changes
    }

    // MARK: Recording

    /// Returns whether the work is in the database now. It stays there if the process is killed.
    func record(_ record: Record, value: UnsafeRawBufferPointer?) throws(NotRecorded) -> Bool {
        if configuration.isDryRun { return false }
        var record = record
        var stored: [UInt8]?
        if let value = unsafe value {
            if value.count > configuration.limit / 2 || value.count > 1 << 29 {
                throw NotRecorded(reason: "its value of \(value.count) bytes is larger than the store keeps")
            }
            (record.value, stored) = unsafe Record.Value.encode(value)
        }
        let body = record.encoded(), variant = record.variant
        let isRecorded: Bool? = database.write { connection throws(SQLiteError) in
            let insert = try connection.statement(
                """
                INSERT OR REPLACE INTO work(key, variant, identity, used, body, value)
                VALUES (?1, ?2, ?3, max(?4, coalesce((SELECT max(used) FROM work), 0)), ?5, ?6)
                """)
            insert.bind(1, record.key.column)
            insert.bind(2, variant.column)
            insert.bind(3, record.identity.column)
            // The latest use of all, even if the clock was set back: eviction must begin with another row.
            insert.bind(4, Clock.seconds)
            insert.bind(5, body)
            insert.bind(6, stored)
            try connection.run(insert)
            let forget = try connection.statement(
                "DELETE FROM work WHERE key = ?1 AND id NOT IN (SELECT id FROM work WHERE key = ?1 ORDER BY id DESC LIMIT ?2)")
            forget.bind(1, record.key.column)
            forget.bind(2, Int64(Self.versions))
            try connection.run(forget)
            try connection.evict(to: configuration.limit)
            return true
        }
        return isRecorded ?? false
    }
}

extension SQLiteError {
    fileprivate static var damagedRow: SQLiteError { SQLiteError(code: SQLITE_CORRUPT, message: "a row is not what was written") }
}
