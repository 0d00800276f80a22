// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "jobserver",
    dependencies: [.package(name: "opscript", path: "../../..")],
    targets: [
        // Debian: libmicrohttpd-dev.
        .target(name: "CServer", linkerSettings: [.linkedLibrary("microhttpd")]),
        .executableTarget(
            name: "jobserver", dependencies: ["CServer", .product(name: "LuaBindings", package: "opscript")]),
    ]
)
