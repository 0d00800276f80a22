// A class as tutorials print it. Edits for Linux: stand-ins (StandIns.swift), including `PhotoServer` in place of the network.
// Edits for the tests: the random delay at the end is `Delay`; `MainThread.isCurrent` instead of `Thread.isMainThread`.

import Foundation
import OpEngine

class DownloadOperation: Operation {
    let target: PhotoData

    init(target: PhotoData) {
        self.target = target

        super.init()
    }

    override func main() {
        autoreleasepool {
            print(self, "Start")

            defer {
                if isCancelled {
                    print(self, "Cancelled")
                } else {
                    print(self, "Done")
                }
            }

            guard !MainThread.isCurrent else { fatalError() }
            guard !isCancelled else {
                print(self, "Cancelled")
                return
            }

            do {
                let data = try PhotoServer.data(of: target.url)

                guard !isCancelled else {
                    print(self, "Cancelled")
                    return
                }

                if let image = UIImage(data: data) {
                    let size = image.size.applying(CGAffineTransform(scaleX: 0.5, y: 0.5))
                    UIGraphicsBeginImageContextWithOptions(size, true, 0.0)
                    let frame = CGRect(origin: CGPoint.zero, size: size)
                    image.draw(in: frame)
                    let resultImage = UIGraphicsGetImageFromCurrentImageContext()
                    UIGraphicsEndImageContext()

                    guard !isCancelled else {
                        print(self, "Cancelled")
                        return
                    }

                    target.data = resultImage
                }
            } catch {
                print(error.localizedDescription)
            }

            Delay.pass(self)
        }
    }

    override func cancel() {
        super.cancel()

        print(self, "Cancel")
    }
}
