public import COpscript
import LuaBindings

/// Applies a setting of the store; does nothing for NULL.
private func changeStore(_ configuration: OpaquePointer?, _ body: (inout Runtime.Store) throws -> Void) {
    object(configuration, as: ConfigurationObject.self)?.changeStore(body)
}

/// `opscript_configuration_set_store`
@_cdecl("opscript_configuration_set_store")
public func setStore(_ configuration: OpaquePointer?, _ directory: UnsafePointer<CChar>?) {
    changeStore(configuration) {
        $0.directory = ""
        guard let directory else { return }
        $0.directory = try text(directory, "the folder of the store")
        if $0.directory.isEmpty { throw Misuse("the folder of the store is an empty text; NULL is for no store") }
    }
}

/// `opscript_configuration_set_store_limit`
@_cdecl("opscript_configuration_set_store_limit")
public func setStoreLimit(_ configuration: OpaquePointer?, _ bytes: Int) {
    // More than half of the address space is no limit.
    changeStore(configuration) { $0.limit = bytes == 0 ? Runtime.Store(directory: "").limit : bytes < 0 ? .max : bytes }
}

/// `opscript_configuration_set_store_mode`
@_cdecl("opscript_configuration_set_store_mode")
public func setStoreMode(_ configuration: OpaquePointer?, _ mode: opscript_store_mode) {
    changeStore(configuration) {
        switch mode {
        case OPSCRIPT_STORE_NORMAL: $0.mode = .normal
        case OPSCRIPT_STORE_DRY_RUN: $0.mode = .dryRun
        case OPSCRIPT_STORE_ALWAYS_RUN: $0.mode = .alwaysRun
        default: throw Misuse("there is no mode of the store with the number \(mode.rawValue)")
        }
    }
}

/// `opscript_configuration_set_store_explainer`
@_cdecl("opscript_configuration_set_store_explainer")
public func setStoreExplainer(
    _ configuration: OpaquePointer?, _ explainer: opscript_explainer?, _ userData: UnsafeMutableRawPointer?,
    _ destroy: opscript_destructor?
) {
    let data = UserData(userData, destroy)
    changeStore(configuration) { $0.explain = explainer.map { explanation($0, data) } }
}

/// An explainer of the program as one of Swift.
private func explanation(_ explainer: @escaping opscript_explainer, _ data: UserData) -> @Sendable (Runtime.Explanation) -> Void {
    { explanation in
        let (decision, reason) = explanation.decision.inC
        let (name, text) = (CText(shown: explanation.name), CText(shown: reason))
        withExtendedLifetime((name, text, explanation)) {
            explainer(data.pointer, borrowed(explanation.operation), name.bytes, decision, text.bytes)
        }
    }
}

extension Runtime.Explanation.Decision {
    fileprivate var inC: (opscript_decision, reason: String) {
        switch self {
        case .isSkipped: (OPSCRIPT_SKIPPED, "")
        case .runs(let reason): (OPSCRIPT_RUNS, reason)
        case .isNotRecorded(let reason): (OPSCRIPT_NOT_RECORDED, reason)
        }
    }
}
