import OpEngine
import OpPlatform

/// A class of operations that a script has defined with `subclass`. Each state that knows the class holds its contents in a table.
///
/// The class lives as long as its runtime, like a module.
final class ScriptClass: Sendable {
    let name: String
    /// The number of the state that defined the class.
    let home: Int
    /// Whether its operations are groups.
    let isGroup: Bool
    /// Distinguishes the class from all others, also on other machines.
    let identity: UInt64
    private let contents = Guarded(Contents())
    private let charge: Charge?

    private struct Contents {
        var parcel: Parcel?
        /// The number of changes of the contents.
        var version: UInt64 = 0
    }

    init(name: String, home: Int, isGroup: Bool, identity: UInt64 = .random(in: .min ... .max), charge: Charge? = nil) {
        self.charge = charge
        self.name = name
        self.home = home
        self.isGroup = isGroup
        self.identity = identity
    }

    /// The class as it was when one of its operations was last prepared to run in another state. A state that receives an operation without its
    /// class reads this. Nil if the class could not be sent.
    var latest: Parcel? {
        get { contents.withLock { $0.parcel } }
        set {
            // Release the old value outside of the lock.
            let replaced = contents.withLock { contents in
                contents.version += 1
                return exchange(&contents.parcel, with: newValue)
            }
            withExtendedLifetime(replaced) {}
        }
    }

    /// The number of changes of `latest`.
    var version: UInt64 { contents.withLock { $0.version } }

    /// Takes over the contents that the class has on another machine.
    func receive(_ parcel: Parcel, version: UInt64) {
        let replaced = contents.withLock { contents -> Parcel? in
            guard version > contents.version else { return nil }
            contents.version = version
            return exchange(&contents.parcel, with: parcel)
        }
        withExtendedLifetime(replaced) {}
    }
}

/// The identity of a class table.
enum ClassIdentity {
    /// A class of the module, by its name.
    case builtIn(String)
    case script(ScriptClass)
}
