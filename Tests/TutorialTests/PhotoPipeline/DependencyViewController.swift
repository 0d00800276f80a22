// The operations of a class as tutorials print it. Edits for Linux: no UIKit, so no superclass, outlets or data source; `import Dispatch`.
// Edits for the tests: the queues belong to an engine whose main thread is the test's; `start` calls `added` when the operations are in
// their queues; `cancel` has both forms that the tutorial prints.

import Dispatch
import Foundation
import OpEngine

class DependencyViewController {

    let backgroundQueue: OperationQueue
    let mainQueue: OperationQueue

    init(engine: Engine) {
        backgroundQueue = OperationQueue(engine: engine)
        mainQueue = engine.mainQueue
    }

    var uiOperation = [Operation]()
    var backgroundOperations = [Operation]()

    var collectionView = UICollectionView()

    func start(added: @escaping () -> Void) {
        PhotoDataSource.shared.reset()
        collectionView.reloadData()
        uiOperation.removeAll()
        backgroundOperations.removeAll()

        DispatchQueue.global().async {
            let reloadOp = ReloadOperation(collectionView: self.collectionView)
            self.uiOperation.append(reloadOp)

            for (index, data) in PhotoDataSource.shared.list.enumerated() {
                let downloadOp = DownloadOperation(target: data)
                reloadOp.addDependency(downloadOp)
                self.backgroundOperations.append(downloadOp)

                let filterOp = FilterOperation(target: data)
                filterOp.addDependency(reloadOp)
                self.backgroundOperations.append(filterOp)

                let reloadItemOp = ReloadOperation(
                    collectionView: self.collectionView, indexPath: IndexPath(item: index, section: 0))
                reloadItemOp.addDependency(filterOp)
                self.uiOperation.append(reloadItemOp)
            }

            self.backgroundQueue.addOperations(self.backgroundOperations, waitUntilFinished: false)
            self.mainQueue.addOperations(self.uiOperation, waitUntilFinished: false)
            added()
        }
    }

    func cancelQueues() {
        mainQueue.cancelAllOperations()
        backgroundQueue.cancelAllOperations()
    }

    func cancelEach() {
        uiOperation.forEach { $0.cancel() }
        backgroundQueue.cancelAllOperations()
    }

    func viewDidLoad() {
        PhotoDataSource.shared.reset()

        backgroundQueue.maxConcurrentOperationCount = 1
    }
}
