// Stand-ins for the parts of UIKit and Core Image that the pipeline uses. An image is a row of bytes; a filter inverts it.

import Foundation
import TestSupport

func autoreleasepool<Result>(_ body: () throws -> Result) rethrows -> Result { try body() }

class UIImage {
    let bytes: [UInt8]
    var size: CGSize { CGSize(width: bytes.count, height: 1) }
    var cgImage: CGImage? { CGImage(bytes: bytes) }

    init?(data: Data) { bytes = [UInt8](data) }
    init(cgImage: CGImage) { bytes = cgImage.bytes }
    init(bytes: [UInt8]) { self.bytes = bytes }

    func draw(in frame: CGRect) { Canvas.current.image = UIImage(bytes: [UInt8](bytes.prefix(Int(frame.width)))) }
}

struct CGImage { let bytes: [UInt8] }

struct CGAffineTransform { let scaleX: CGFloat, y: CGFloat }

extension CGSize {
    func applying(_ transform: CGAffineTransform) -> CGSize { CGSize(width: width * transform.scaleX, height: height * transform.y) }
}

/// The drawing surface of a thread.
private final class Canvas {
    var image: UIImage?

    static var current: Canvas {
        if let canvas = Thread.current.threadDictionary["canvas"] as? Canvas { return canvas }
        let made = Canvas()
        Thread.current.threadDictionary["canvas"] = made
        return made
    }
}

func UIGraphicsBeginImageContextWithOptions(_ size: CGSize, _ opaque: Bool, _ scale: CGFloat) { Canvas.current.image = nil }
func UIGraphicsGetImageFromCurrentImageContext() -> UIImage? { Canvas.current.image }
func UIGraphicsEndImageContext() { Canvas.current.image = nil }

struct CIImage {
    var bytes: [UInt8]
    var extent: Int { bytes.count }
    init(cgImage: CGImage) { bytes = cgImage.bytes }
}

let kCIInputImageKey = "inputImage"
let kCIOutputImageKey = "outputImage"

class CIFilter {
    private var image: CIImage?
    init?(name: String) {}
    func setValue(_ image: CIImage, forKey key: String) { self.image = image }
    func value(forKey key: String) -> Any? {
        guard var output = image else { return nil }
        output.bytes = output.bytes.map(~)
        return output
    }
}

struct CIContext {
    init(options: [String: Any]?) {}
    func createCGImage(_ image: CIImage, from extent: Int) -> CGImage? { CGImage(bytes: image.bytes) }
}

extension IndexPath {
    init(item: Int, section: Int) { self = [section, item] }
    var item: Int { self[1] }
}

/// Records what it was asked to show. Traps when it is used on any thread but the main thread.
class UICollectionView {
    var indexPathsForVisibleItems: [IndexPath] { (0..<20).map { IndexPath(item: $0, section: 0) } }
    private(set) var reloads: [IndexPath?] = []

    func reloadData() {
        precondition(MainThread.isCurrent)
        reloads.append(nil)
    }

    func reloadItems(at indexPaths: [IndexPath]) {
        precondition(MainThread.isCurrent)
        reloads += indexPaths
    }
}

/// The thread of the main queue: the thread of the test, because a test does not run on the first thread of the process.
enum MainThread {
    private static let thread = Locked<pthread_t?>(nil)

    static func becomeCurrent() { thread.withLock { $0 = pthread_self() } }
    static var isCurrent: Bool { thread.withLock { $0 == pthread_self() } }
}

/// The source of the photos, in place of the network.
enum PhotoServer {
    static func data(of url: URL) throws -> Data { Data(repeating: UInt8(url.lastPathComponent.split(separator: ".")[0])!, count: 8) }
}

/// Replaces a random delay by code of the running test.
enum Delay {
    private static let body = Locked<(Operation) -> Void>({ _ in })

    static func set(_ body: @escaping (Operation) -> Void) { self.body.withLock { $0 = body } }
    static func pass(_ operation: Operation) { body.withLock { $0 }(operation) }
}
