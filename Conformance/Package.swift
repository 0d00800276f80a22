// swift-tools-version: 6.2
import PackageDescription

// The cases are compiled twice: with Foundation's operations and with OpEngine's.
// `scripts/conformance` runs each case in a process of its own.

let settings: [SwiftSetting] = [.swiftLanguageMode(.v5)]

let package = Package(
    name: "Conformance",
    dependencies: [.package(name: "opscript", path: "..")],
    targets: [
        .executableTarget(name: "FoundationCases", swiftSettings: settings),
        .executableTarget(
            name: "OpEngineCases",
            dependencies: [
                .product(name: "OpEngine", package: "opscript"), .product(name: "OpEngineDispatch", package: "opscript"),
            ], swiftSettings: settings),
    ]
)
