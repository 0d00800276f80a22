extension BeyondFoundation where Self: Operation {
    /// The group that the operation is a member of. Nil before it is added and after it has finished.
    public var group: GroupOperation? { surroundingGroup as? GroupOperation }
}

extension Operation {
    /// The group that the operation is a member of, of whatever class.
    package var surroundingGroup: Operation? { (queue as? MemberQueue)?.group }

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
