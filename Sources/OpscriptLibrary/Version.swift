import COpscript

private let versionText = CText(shown: OPSCRIPT_VERSION)

/// `opscript_version`
@_cdecl("opscript_version")
public func version() -> UnsafePointer<CChar>? { UnsafePointer(versionText.bytes) }

/// `opscript_version_number`
@_cdecl("opscript_version_number")
public func versionNumber() -> CInt {
    CInt(OPSCRIPT_VERSION_MAJOR * 1_000_000 + OPSCRIPT_VERSION_MINOR * 1000 + OPSCRIPT_VERSION_PATCH)
}
