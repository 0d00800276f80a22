/// Some Lua states: one nearly always, which needs no memory of its own. A word; a `SmallArray` would take nine bytes.
enum StateSet {
    case none
    case one(LuaState)
    case several([LuaState])

    func contains(where predicate: (LuaState) -> Bool) -> Bool {
        switch self {
        case .none: false
        case .one(let state): predicate(state)
        case .several(let states): states.contains(where: predicate)
        }
    }

    func contains(_ state: LuaState) -> Bool { contains { $0 === state } }

    /// All but `state`.
    func without(_ state: LuaState?) -> [LuaState] {
        if case .one(let only) = self, only === state { return [] }
        return switch self {
        case .none: []
        case .one(let only): [only]
        case .several(let states): states.filter { $0 !== state }
        }
    }

    /// Returns whether it was not there.
    mutating func insert(_ state: LuaState) -> Bool {
        if case .none = self {
            self = .one(state)
            return true
        }
        if contains(state) { return false }
        self = .several(without(nil) + [state])
        return true
    }

    /// Returns whether it was there.
    mutating func remove(_ state: LuaState) -> Bool {
        if case .one(let only) = self, only === state {
            self = .none
            return true
        }
        if !contains(state) { return false }
        self = .several(without(state))
        return true
    }
}
