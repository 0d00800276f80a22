// A class as tutorials print it. Edits for Linux: stand-ins (StandIns.swift).
// Edits for the tests: the random delay in the middle is `Delay`; `MainThread.isCurrent` instead of `Thread.isMainThread`.

import Foundation
import OpEngine

class FilterOperation: Operation {
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

            guard let source = target.data?.cgImage else { fatalError() }
            let ciImage = CIImage(cgImage: source)

            guard !isCancelled else {
                print(self, "Cancelled")
                return
            }

            let filter = CIFilter(name: "CIPhotoEffectNoir")
            filter?.setValue(ciImage, forKey: kCIInputImageKey)

            guard !isCancelled else {
                print(self, "Cancelled")
                return
            }

            guard let ciResult = filter?.value(forKey: kCIOutputImageKey) as? CIImage else { fatalError() }

            guard !isCancelled else {
                print(self, "Cancelled")
                return
            }

            Delay.pass(self)

            guard !isCancelled else {
                print(self, "Cancelled")
                return
            }
            guard let cgImg = PhotoDataSource.shared.filterContext.createCGImage(ciResult, from: ciResult.extent) else {
                fatalError()
            }
            target.data = UIImage(cgImage: cgImg)
        }
    }

    override func cancel() {
        super.cancel()

        print(self, "Cancel")
    }
}
