// A class as tutorials print it. Edits for Linux: stand-ins (StandIns.swift).
// Edit for the tests: `MainThread.isCurrent` instead of `Thread.isMainThread`.
// Corrected: the tutorial prints `guard isCancelled`, which would reload only after a cancellation.

import Foundation
import OpEngine

class ReloadOperation: Operation {
    weak var collectionView: UICollectionView!
    var indexPath: IndexPath?

    init(collectionView: UICollectionView, indexPath: IndexPath? = nil) {
        self.collectionView = collectionView
        self.indexPath = indexPath

        super.init()
    }

    override func main() {
        autoreleasepool {
            print(self, "Start", indexPath)

            defer {
                if isCancelled {
                    print(self, "Cancelled", indexPath)
                } else {
                    print(self, "Done", indexPath)
                }
            }
            guard MainThread.isCurrent else { fatalError() }
            // Corrected: `guard isCancelled else { … }`.
            guard !isCancelled else {
                print(self, "Cancelled")
                return
            }

            if let indexPath = indexPath {
                if collectionView.indexPathsForVisibleItems.contains(indexPath) {
                    collectionView.reloadItems(at: [indexPath])
                }
            } else {
                collectionView.reloadData()
            }
        }
    }

    override func cancel() {
        super.cancel()

        print(self, "Cancel")
    }
}
