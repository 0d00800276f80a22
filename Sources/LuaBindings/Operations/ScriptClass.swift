@_spi(Locking) import OpEngine

/// A class of operations that a script has defined with `subclass`. Each state that knows the class holds its contents in a table.
///
/// The class lives as long as its runtime, like a module.
final class ScriptClass: Sendable {
    let name: String
    /// The number of the state that defined the class.
    let home: Int
    /// Whether its operations are groups.
    let isGroup: Bool
    private let contents = Guarded<Parcel?>(nil)

    init(name: String, home: Int, isGroup: Bool) {
        self.name = name
        self.home = home
        self.isGroup = isGroup
    }

    /// The class as it was when one of its operations was last prepared to run in another state. A state that gets such an operation
    /// without its class reads it. Nil if the class could not be sent.
    var latest: Parcel? {
        get { contents.withLock { $0 } }
        set {
            // Release the old value outside of the lock.
            let replaced = contents.withLock { exchange(&$0, with: newValue) }
            withExtendedLifetime(replaced) {}
        }
    }
}

/// The identity of a class table.
enum ClassIdentity {
    /// A class of the module, by its name.
    case builtIn(String)
    case script(ScriptClass)
}
