// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "mainloop",
    dependencies: [.package(name: "opscript", path: "../..")],
    targets: [
        .target(name: "CEpoll"),
        .executableTarget(name: "mainloop", dependencies: ["CEpoll", .product(name: "OpEngine", package: "opscript")]),
    ]
)
