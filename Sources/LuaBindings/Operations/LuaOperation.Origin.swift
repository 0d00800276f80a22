import CLua
import Synchronization

extension LuaOperation {
    /// What all operations share that the same Lua state makes in the same way.
    @safe final class Origin: Sendable {
        // The thread that makes operations changes the reference count; other threads read what follows. The gap keeps the two in different
        // cache lines.
        private let gap = InlineArray<6, UInt>(repeating: 0)
        let core: RuntimeCore
        /// The Lua state that makes the operations; nil if the host does. A Lua state keeps its origins until it is closed.
        private let homeState: LuaState?
        /// `homeState` without reference counting.
        // Safety: `homeState` keeps it alive.
        let home: Unmanaged<LuaState>?
        let kind: Kind
        let isAsynchronous: Bool
        /// The class, if a script has defined it.
        let scriptClass: ScriptClass?
        private let groupObject: Runtime.Group?
        /// What the operations belong to, without reference counting.
        // Safety: `groupObject` keeps it alive.
        let group: Unmanaged<Runtime.Group>?
        /// The shared body of the operations, if the host makes them. The body is light, so it costs little to keep it as long as any
        /// operation.
        let body: Parcel?
        /// The part of `body` that C reads.
        // Safety: immutable, and `body` keeps it alive.
        nonisolated(unsafe) let bodyPointer: UnsafePointer<clua_parcel>?

        init(core: RuntimeCore, home: LuaState?, kind: Kind, scriptClass: ScriptClass? = nil, group: Runtime.Group?, body: Parcel? = nil) {
            self.core = core
            homeState = home
            unsafe self.home = home.map { unsafe Unmanaged.passUnretained($0) }
            self.kind = kind
            isAsynchronous = kind == .asynchronous || kind == .asynchronousInstance || kind == .group
            self.scriptClass = scriptClass
            groupObject = group
            unsafe self.group = group.map { unsafe Unmanaged.passUnretained($0) }
            self.body = body
            unsafe bodyPointer = body?.pointer
        }

        /// The initial bodies of an operation of this origin.
        var bodies: SmallArray<Body> { body.map { .one(Body(form: .parcel($0), isInHandle: false)) } ?? .empty }
    }
}
