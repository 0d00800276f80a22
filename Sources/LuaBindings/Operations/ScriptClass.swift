@_spi(Locking) import OpEngine

/// A class of operations that a script has defined with `subclass`. What is in it is in a table of each state that knows it.
///
/// It lives as long as its runtime, as a module does.
final class ScriptClass: Sendable {
    let name: String
    /// The number of the state that made it.
    let home: Int
    private let contents = Guarded<Parcel?>(nil)

    init(name: String, home: Int) {
        self.name = name
        self.home = home
    }

    /// The class as it was when an operation of it was made to run elsewhere last: for a state that gets one without its class. Nil when
    /// it could not be sent.
    var latest: Parcel? {
        get { contents.withLock { $0 } }
        set {
            // What is replaced is released outside of the lock.
            let replaced = contents.withLock { exchange(&$0, with: newValue) }
            withExtendedLifetime(replaced) {}
        }
    }
}

/// Which class a table is.
enum ClassIdentity {
    /// One of the module's, by its name.
    case builtIn(String)
    case script(ScriptClass)
}
