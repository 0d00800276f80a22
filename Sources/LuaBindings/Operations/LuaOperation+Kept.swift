@_spi(Subclassing) import OpEngine

/// The values that an operation keeps, and the memory that they take.
extension LuaOperation {
    /// Counts the bytes of a property, in place of those of its former value.
    func count(_ kind: Kept, _ bytes: Int?) {
        guard let ledger = core.ledger else { return }
        let made = bytes.map { Charge(kind, $0, in: ledger) }
        let replaced = withFields { $0.rareInUse.charges.updateValue(made, forKey: kind) }
        withExtendedLifetime(replaced) {}
    }

    /// Counts one more, or one less, of the things of a kind.
    func countOne(_ kind: Kept, _ bytes: Int = 0, adding: Bool = true) {
        guard let ledger = core.ledger else { return }
        withFields { $0.rareInUse.count(kind, bytes, adding: adding, in: ledger) }
    }

    /// Makes this operation keep `parcel`. References in `parcel` to this operation become unowned, so that no cycle arises.
    func keep(_ parcel: Parcel?) {
        parcel?.makeUnowned(referencesTo: self)
        registerReferences(of: parcel)
    }

    /// Records that this operation keeps `parcel`. The engine must know that releasing the operation may run arbitrary code. The runtime must
    /// know that a reference cycle may exist.
    func registerReferences(of parcel: Parcel?) {
        guard let parcel, parcel.hasReferences else { return }
        keepsMore()
        guard parcel.keepsOperations else { return }
        let isFirst = withFields { !exchange(&$0.isKeeper, with: true) }
        if isFirst { core.addKeeper(self) }
    }

    /// Drops all parcels. The runtime calls this when it has closed: no code can read them any more.
    func dropParcels() {
        let dropped = ifOutOfLine { $0.dropParcels() }
        withExtendedLifetime(dropped) {}
    }
}
