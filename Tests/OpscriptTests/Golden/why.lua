-- Why an operation does not run, a queue's progress, a dependency that did not succeed.
local Q, Op = opscript.OperationQueue, opscript.Operation
local q = Q.new { name = "q", isSuspended = true }
local a = Op.new { name = "a", main = function() end }
local b = Op.new { name = "b", main = function() end }; b:addDependency(a)
q:addOperation(b); print(b:why()); print(a:why()); print(q.progress.totalUnitCount, q.progress.completedUnitCount)
q:addOperation(a); print(a:why()); q.isSuspended = false; b:waitUntilFinished(); print(b:why(), q.progress.fractionCompleted)
local bad = Op.new(function() error "bad" end)
local dep = Op.new { main = function() end, dependencyPolicy = "succeeded", name = "dep" }
dep:addDependency(bad); q:addOperations({ dep, bad }, true); print(dep.error, dep.error.kind, bad.error)
