-- Why an operation does not run, the progress of a queue, and a dependency that did not succeed.
local Q, Op = opscript.OperationQueue, opscript.Operation
local q = Q.new { name = "q", isSuspended = true }
local a = Op.new { name = "a", main = function() end }
local b = Op.new { name = "b", main = function() end }; b:addDependency(a)
q:addOperation(b); print((b:why())); print((a:why())); print(q.progress.totalUnitCount, q.progress.completedUnitCount)
q:addOperation(a); print((a:why())); q.isSuspended = false; b:waitUntilFinished(); print(b:why(), q.progress.fractionCompleted)
local bad = Op.new(function() error "bad" end)
local dep = Op.new { main = function() end, dependencyPolicy = "succeeded", name = "dep" }
dep:addDependency(bad); q:addOperations({ dep, bad }, true); print(dep.error, dep.error.kind, bad.error)
-- The same information as a table.
local held = Q.new { name = "held", isSuspended = true, maxConcurrentOperationCount = 0 }
local first, second = Op.new { name = "first", main = print, dependencies = { Op.new { name = "outside", main = print } } }, Op.new(print)
second.isReady = false
held:addOperations({ first, second }, false)
local _, t = first:why()
print(t.isSuspended, t.queue == held, t.maxConcurrentOperationCount, #t.unfinishedDependencies, t.unfinishedDependencies[1].name, t.neverAdded[1].name)
_, t = second:why()
print(t.isReadyByItself, t.unfinishedDependencies, t.isInQueue)
_, t = Op.new(print):why()
print(t.isInQueue, t.queue)
local barrier = held:addBarrierBlock(function() end)
local behind = held:addOperation(function() end)
print(#select(2, barrier:why()).before, select(2, behind:why()).barrier == barrier)
held:cancelAllOperations()
held.isSuspended = false; held.maxConcurrentOperationCount = 1
held:waitUntilAllOperationsAreFinished()
