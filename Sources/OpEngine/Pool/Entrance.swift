import CPlatform
import OpPlatform
import Synchronization

/// Lets one thread at a time use an engine's main queue: the main inbox, and the objects that the layer above keeps with it, such as a Lua
/// state.
///
/// In an engine that a program makes for itself, the thread that made it is inside for ever. A runtime *opens* the entrance: from then on,
/// no thread is inside until a call enters. The thread inside counts as the main thread.
package final class Entrance: @unchecked Sendable {
    // Safety: `isOpen` changes once, before the engine is shared. Only the thread inside uses the other variables; `inside` orders the uses
    // of one thread before those of the next.

    /// The kernel's number of the thread inside, with `patient` if other threads need not know of it; 0 for none.
    private let inside: Atomic<UInt32>
    private static let patient: UInt32 = 1 << 31
    /// The number of threads that wait in `enterWhenFree`.
    private let waiting = Atomic<Int>(0)
    /// The address of the name of the call that has entered, for messages.
    private let call = Atomic<UInt>(0)
    /// The number of calls of the thread inside that have entered and not left.
    private var depth = 1
    private(set) var isOpen = false
    private var resident: (any Resident)?
    /// The process's fork count when the engine was made. A child of that process has another one, and lacks the engine's threads.
    private let forkCount = cplatform_get_fork_count()

    /// An object that the thread inside uses. Its methods are called on that thread, while it is inside.
    package protocol Resident: AnyObject {
        func threadHasEntered()
        func threadWillLeave()
    }

    init(mainThread: Int32) { inside = Atomic(UInt32(bitPattern: mainThread)) }

    /// Whether this process was forked from the one that made the engine.
    @inline(__always)
    package var isForked: Bool { cplatform_get_fork_count() != forkCount }

    /// Whether the calling thread is inside.
    @inline(__always)
    package var isInside: Bool { inside.load(ordering: .relaxed) & ~Self.patient == Self.thisThread }

    /// The kind of thread that is inside.
    package enum Holder {
        case nobody
        /// A thread that has waited for its turn, so that other threads need not know of it.
        case patientThread
        case thread
    }

    package var holder: Holder {
        let thread = inside.load(ordering: .sequentiallyConsistent)
        return thread == 0 ? .nobody : thread & Self.patient != 0 ? .patientThread : .thread
    }

    private static var thisThread: UInt32 {
        @inline(__always) get { UInt32(bitPattern: cplatform_thread_id()) }
    }

    /// Opens the entrance for `resident`, and leaves. The calling thread must have made the engine, which no other thread uses yet.
    package func open(for resident: any Resident) {
        isOpen = true
        self.resident = resident
        leave()
    }

    /// Forgets the resident, which was closed. The calling thread must be inside.
    package func vacate() { resident = nil }

    /// Enters. Traps if another thread is inside.
    ///
    /// - Parameter name: the name of the call that enters, for messages.
    @inline(__always)
    package func enter(_ name: StaticString) {
        if !tryEnter(name) { refuse(name) }
    }

    /// Enters, unless another thread is inside. Returns whether the calling thread is inside.
    package func tryEnter(_ name: StaticString) -> Bool { tryEnter(name, mark: 0) }

    private func tryEnter(_ name: StaticString, mark: UInt32) -> Bool {
        if isInside {
            depth += 1
            return true
        }
        if isForked { refuseChild(name) }
        guard inside.compareExchange(expected: 0, desired: Self.thisThread | mark, ordering: .acquiringAndReleasing).exchanged else {
            return false
        }
        hasEntered(name)
        return true
    }

    /// Enters as soon as no other thread is inside. Returns false if one still is at `deadline`.
    package func enterWhenFree(_ name: StaticString, until deadline: ContinuousClock.Instant? = nil) -> Bool {
        if tryEnter(name, mark: Self.patient) { return true }
        waiting.wrappingAdd(1, ordering: .sequentiallyConsistent)
        defer { waiting.wrappingSubtract(1, ordering: .relaxed) }
        while !tryEnter(name, mark: Self.patient) {
            if let deadline, ContinuousClock.now >= deadline { return false }
            let thread = inside.load(ordering: .sequentiallyConsistent)
            if thread != 0 { futexWait(inside, while: thread, until: deadline) }
        }
        return true
    }

    /// The name of the call that entered last.
    package var nameOfCall: String {
        // Safety: the address is that of a literal, which ends with a zero.
        unsafe UnsafePointer<CChar>(bitPattern: call.load(ordering: .relaxed)).map { unsafe String(cString: $0) } ?? "its initializer"
    }

    package func leave() {
        depth -= 1
        guard depth == 0, isOpen else { return }
        resident?.threadWillLeave()
        inside.store(0, ordering: .sequentiallyConsistent)
        if waiting.load(ordering: .sequentiallyConsistent) != 0 { futexWake(inside) }
    }

    private func hasEntered(_ name: StaticString) {
        refuseWorker()
        call.store(unsafe UInt(bitPattern: name.utf8Start), ordering: .relaxed)
        depth = 1
        resident?.threadHasEntered()
    }

    /// Ends the process if an operation of this engine enters: the thread inside may be waiting for that operation.
    private func refuseWorker() {
        guard Worker.current?.engine.entrance === self else { return }
        fatalError("opscript: an operation calls the Runtime that runs it: add an operation to the main queue instead, which may call it")
    }

    /// Ends the process, because it is a child of the one that made the engine.
    @inline(never)
    private func refuseChild(_ name: StaticString) -> Never {
        fatalError(
            """
            opscript: a forked process calls \(name) on a Runtime of its parent, whose threads it does not have: make a Runtime of its own \
            after the fork, or execute a program
            """)
    }

    /// Ends the process, because another thread is inside.
    @inline(never)
    package func refuse(_ name: StaticString) -> Never {
        refuseWorker()
        let thread = inside.load(ordering: .relaxed) & ~Self.patient
        fatalError(
            """
            opscript: thread \(Self.thisThread) calls \(name) while thread \(thread) is inside \(nameOfCall): one thread at a time may use a \
            Runtime. Use it in one actor or serial queue, or guard it with a lock; while a call is awaited, await the others as well
            """)
    }
}
