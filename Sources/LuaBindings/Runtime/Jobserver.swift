import CIO
import OpEngine
import OpPlatform

/// GNU make's jobserver, through which a run and its programs share places: make's, if make has started this process, or one of its own.
///
/// A jobserver of its own is made when an operation starts the first program. From then on the engine takes its places from there, except for the
/// first one, like any other client.
// Safety: `@unchecked Sendable` because C locks what the pointer points to, which is never freed, and `opened` has a lock.
@safe
package final class Jobserver: PlaceSource, @unchecked Sendable {
    /// The form of a jobserver of its own.
    package enum Style: String, CaseIterable, Sendable {
        /// The form that every version of make knows.
        case pipe
        /// That of make 4.4 and later, and the only one that ninja reads.
        case fifo
    }

    /// The name of the variable.
    static let name = "MAKEFLAGS".utf8

    /// A jobserver that is in use.
    // Safety: the pointer is never freed.
    @safe
    struct Opened {
        let pointer: OpaquePointer
        /// `MAKEFLAGS=` and its value, for programs.
        let variable: [UInt8]
    }

    private let style: Style
    private let flags: MakeFlags
    private let isOfMake: Bool
    private let opened = Guarded<Opened?>(nil)

    /// Makes one of its own, for programs with these flags besides.
    package init(_ style: Style, besides flags: MakeFlags) { (self.style, self.flags, isOfMake) = (style, flags, false) }

    /// Uses make's. Returns nil if make has not passed it on. Call this before the process opens files.
    package init?(ofMake flags: MakeFlags) {
        (style, self.flags, isOfMake) = (.pipe, flags, true)
        var error: Int32 = 0
        let pointer: OpaquePointer?
        switch flags.address {
        case .pipe(let reading, let writing): unsafe pointer = cio_jobserver_open(reading, writing, &error)
        case .fifo(let path): unsafe pointer = cio_jobserver_open_fifo(path, &error)
        case nil: return nil
        }
        guard let pointer = unsafe pointer else { return nil }
        opened.withLock { unsafe $0 = Opened(pointer: pointer, variable: variable(of: pointer, placeCount: flags.placeCount)) }
    }

    private func variable(of pointer: OpaquePointer, placeCount: Int?) -> [UInt8] {
        let path = unsafe cio_jobserver_path(pointer).map { unsafe String(cString: $0) }
        let first = CIO_JOBSERVER_DESCRIPTOR
        let address = path.map { MakeFlags.Address.fifo($0) } ?? .pipe(reading: first, writing: first + 1)
        return Array("MAKEFLAGS=\(flags.with(address, placeCount: placeCount))".utf8)
    }

    /// The users that have the places when the engine gets none.
    var users: String { isOfMake ? "other jobs of make" : "programs that read make's jobserver" }

    /// Makes the engine take its places from make. Does nothing for a jobserver of its own.
    func begin(for engine: Engine) { if isOfMake { engine.takePlaces(from: self) } }

    /// The jobserver for a program; nil for programs outside of operations, which a jobserver of its own does not count.
    func forProgram(of operation: Operation?, _ engine: Engine) -> Opened? {
        if operation == nil && !isOfMake { return nil }
        let (found, isNew) = opened.withLock { opened -> (Opened?, Bool) in
            if let opened { return (opened, false) }
            var error: Int32 = 0
            let count = engine.workerCount
            // Without a descriptor, the next program tries again.
            guard let pointer = unsafe cio_jobserver_make(count - 1, style == .fifo, &error) else { return (nil, false) }
            unsafe opened = Opened(pointer: pointer, variable: variable(of: pointer, placeCount: count))
            return (opened, true)
        }
        if isNew { engine.takePlaces(from: self) }
        return found
    }

    /// Puts tokens into a jobserver of its own that programs have not returned, because a signal has killed them. Call this when no program runs.
    func refill(_ engine: Engine) {
        if isOfMake { return }
        opened.withLock { opened in if let opened { unsafe cio_jobserver_refill(opened.pointer, engine.workerCount - 1) } }
    }

    package func take() -> Bool { opened.withLock { opened in opened.map { unsafe cio_jobserver_take($0.pointer) } ?? false } }

    package func give() { opened.withLock { opened in if let opened { unsafe cio_jobserver_give(opened.pointer) } } }
}
