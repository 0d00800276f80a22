// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "host",
    dependencies: [.package(name: "opscript", path: "../..")],
    targets: [
        .executableTarget(
            name: "host",
            dependencies: [.product(name: "LuaBindings", package: "opscript"), .product(name: "OpEngine", package: "opscript")])
    ]
)
