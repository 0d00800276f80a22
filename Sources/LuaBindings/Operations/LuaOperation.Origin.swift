import CLua
import Synchronization

extension LuaOperation {
    /// What operations have in common that are made in the same way by the same Lua state.
    @safe final class Origin: Sendable {
        // The thread that makes operations changes the reference count; other threads read what follows. The gap keeps the two in different
        // cache lines.
        private let gap = InlineArray<6, UInt>(repeating: 0)
        let core: RuntimeCore
        /// The Lua state that makes the operations; nil if the host does. A Lua state keeps its origins until it is closed.
        private let homeState: LuaState?
        /// The same, without reference counting.
        // Safety: there as long as `homeState`.
        let home: Unmanaged<LuaState>?
        let kind: Kind
        let isAsynchronous: Bool
        /// The class, if a script has defined it.
        let scriptClass: ScriptClass?
        /// The body of every operation, if the host makes them. It is light, so keeping it as long as any of them costs little.
        let body: Parcel?
        /// What C reads of `body`.
        // Safety: immutable, and there as long as `body`.
        nonisolated(unsafe) let bodyPointer: UnsafePointer<clua_parcel>?

        init(core: RuntimeCore, home: LuaState?, kind: Kind, scriptClass: ScriptClass? = nil, body: Parcel? = nil) {
            self.core = core
            homeState = home
            unsafe self.home = home.map { unsafe Unmanaged.passUnretained($0) }
            self.kind = kind
            isAsynchronous = kind == .asynchronous || kind == .asynchronousInstance
            self.scriptClass = scriptClass
            self.body = body
            unsafe bodyPointer = body?.pointer
        }

        /// What an operation has to run before anybody changes that.
        var bodies: SmallArray<Body> { body.map { .one(Body(form: .parcel($0), isInHandle: false)) } ?? .empty }
    }
}
