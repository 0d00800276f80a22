extension ScriptedFunctions {
    /// The functions that wait for results: `all`, `race`, `settle`, and `run` of queues.
    static let results: StaticString = #"""
        -- The operations of a table as an array.
        local function listed(operations, name)
          local function refuse(found) error(("bad argument #1 to '%s' (%s)"):format(name, found), 5) end
          if type(operations) ~= "table" then refuse("table of operations expected, got " .. type(operations)) end
          local list = {}
          for key, op in pairs(operations) do
            if type(op) ~= "userdata" then refuse(("Operation expected at [%s], got %s"):format(tostring(key), type(op))) end
            list[#list + 1] = op
          end
          return list
        end

        -- Cancels the operations. Their errors count as read, because the caller has what it asked for.
        local function dismiss(list)
          for _, op in ipairs(list) do op:cancel(true) end
        end

        -- The kinds of errors that only tell why an operation was cancelled.
        local isCancel = { dependency = true, condition = true, interrupted = true }

        -- `opscript.all(operations)`.
        local function all(operations)
          local list, results = listed(operations, "all"), {}
          local culprit = #list > 0 and waitForAny(list, nil, "failed")
          if culprit then
            -- An operation that was cancelled because of another one precedes that one in the list, perhaps.
            for _, op in ipairs(list) do
              local failure = op.isFinished and op.error
              if failure and not isCancel[failure.kind] then
                culprit = op
                break
              end
            end
            dismiss(list)
            culprit:get()
          end
          for key, op in pairs(operations) do results[key] = op:get() end
          return results
        end

        -- `opscript.race(operations)`. If all have failed, raises the error of the first in the list.
        local function race(operations)
          local list = listed(operations, "race")
          if #list == 0 then error("bad argument #1 to 'race' (the table has no operation)", 3) end
          local winner = waitForAny(list, nil, "succeeded") or list[1]
          if winner.isFinished then dismiss(list) end
          return select(1, winner:get())
        end

        -- `opscript.settle(operations)`.
        local function settle(operations)
          local list, ends = listed(operations, "settle"), {}
          for key, op in pairs(operations) do
            -- If the waiting operation was cancelled, `get` ends its body.
            if not op:waitUntilFinished() then op:get() end
            local failure = op.error
            if waitForAny({ op }, 0, "succeeded") then
              ends[key] = { status = "succeeded", result = op.result, results = op.results }
            else
              ends[key] = { status = failure and not isCancel[failure.kind] and "failed" or "cancelled", error = failure }
            end
          end
          return ends
        end

        -- `queue:run(main, …)`. Selecting all results keeps this function on the stack, for the place in errors.
        local function run(queue, main, ...)
          if type(main) ~= "function" and type(main) ~= "userdata" then
            error(("bad argument #1 to 'run' (function expected, got %s)"):format(type(main)), 3)
          end
          return select(1, queue:addOperation(main, ...):get())
        end

        local functions = ...
        functions.all, functions.race, functions.settle, functions["queue:run"] = all, race, settle, run
        """#
}
