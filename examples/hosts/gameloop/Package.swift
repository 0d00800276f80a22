// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "gameloop",
    dependencies: [.package(name: "opscript", path: "../../..")],
    targets: [
        .executableTarget(
            name: "gameloop",
            dependencies: [.product(name: "LuaBindings", package: "opscript"), .product(name: "OpEngine", package: "opscript")])
    ]
)
