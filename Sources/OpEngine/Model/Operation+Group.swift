extension BeyondFoundation where Self: Operation {
    /// The group that the operation is a member of. Nil before it is added and after it has finished.
    @_disfavoredOverload
    public var group: GroupOperation? { surroundingGroup as? GroupOperation }
}

extension Operation {
    /// The group, of any class, that the operation is a member of.
    package var surroundingGroup: Operation? { queue?.asMemberQueue?.group }

    /// Whether the operation is a member of a group that was neither added nor started, or of a group inside such a group. O(depth).
    package var isInGroupInNoQueue: Bool {
        guard var group = surroundingGroup else { return false }
        while let outer = group.surroundingGroup { group = outer }
        return !group.isInQueue && !group.loadState().has(State.started)
    }

    /// Whether the operation is a member of `group`, or of a group inside. O(depth).
    package func isMember(of group: Operation) -> Bool {
        if group.memberQueue == nil { return false }
        var next = surroundingGroup
        while let outer = next {
            if outer === group { return true }
            next = outer.surroundingGroup
        }
        return false
    }
}
