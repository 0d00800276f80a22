import LuaBindings
import OpEngine
import Synchronization
import TestSupport
import Testing

/// Classes of the host.
@Suite struct LuaClassTests {
    class Account: LuaObject, @unchecked Sendable {
        // Safety: `@unchecked Sendable` because the only variable has a lock. Not final, so that a test can derive from it.
        let balance: Locked<Int>
        required init(_ balance: Int) { self.balance = Locked(balance) }
    }
    // Safety: as its superclass, to which it adds nothing.
    final class Savings: Account, @unchecked Sendable {}
    private final class Other: LuaObject {}

    private struct TooLittle: Error, CustomStringConvertible { let description = "too little" }

    private func withAccounts<Result>(workers: Int = 2, _ body: (Runtime) throws -> Result) throws -> Result {
        var account = LuaClass<Account>("Account")
        account.function("new") { (balance: Int?) in Account(balance ?? 0) }
        account.property("balance", get: { $0.balance.withLock { $0 } })
        account.property("limit", get: { _ in 100 }, set: { (account: Account, limit: Int) in account.balance.withLock { $0 = limit } })
        account.method("deposit") { (account: Account, amount: Int) in account.balance.withLock { $0 += amount } }
        account.method("withdraw") { (account: Account, amount: Int) throws -> Int in
            try account.balance.withLock { balance in
                guard balance >= amount else { throw TooLittle() }
                balance -= amount
                return balance
            }
        }
        account.metamethod("__add") { (left: Account, right: Account) in
            Account(left.balance.withLock { $0 } + right.balance.withLock { $0 })
        }
        account.metamethod("__len") { (account: Account) in account.balance.withLock { $0 } }
        account.metamethod("__call") { (account: Account, text: String) in "\(text) \(account.balance.withLock { $0 })" }
        return try withRuntime(workers: workers) { runtime in
            try runtime.register(account)
            return try body(runtime)
        }
    }

    @Test func scriptsUseItsMembers() throws {
        try withAccounts { runtime throws in
            #expect(
                try runtime.run(
                    """
                    local a, b = Account.new(5), Account.new()
                    a:deposit(3)
                    b.limit = 7
                    return a.balance, b.balance, a.limit, a:withdraw(1), #(a + b), a 'has', tostring(a), a == a, a == b
                    """) == [8, 7, 100, 7, 14, "has 7", "Account", true, false])
        }
    }

    @Test func anObjectIsTheSameOnBothSidesAndInEveryState() throws {
        try withAccounts { runtime throws in
            let account = Account(10)
            try runtime.setGlobal("account", to: .object(account))
            #expect(try runtime.global("account").object === account)
            let operation = try runtime.operation(
                """
                local a, seen = account, { [account] = 'me' }
                return queue:addOperation(function(op, b) a:deposit(1) return a == b and seen[b], account, Account.new(3).balance end, account)
                """)
            #expect(try runtime.results(of: operation) == ["me", .object(account), 3])
            #expect(account.balance.withLock { $0 } == 11)
            try runtime.register("same") { (a: Account, b: Account?) in a === b }
            #expect(try runtime.run("return same(account, account), same(account)") == [true, false])
        }
    }

    @Test func manyStatesUseOneObjectAtOnce() throws {
        try withAccounts(workers: 4) { runtime throws in
            let account = Account(0)
            try runtime.run(
                "local a = ... for i = 1, 20 do queue:addOperation(function() for j = 1, 200 do a:deposit(1) end end) end",
                arguments: [.object(account)])
            #expect(try runtime.finish().unreadFailures.isEmpty)
            #expect(account.balance.withLock { $0 } == 4000)
        }
    }

    @Test func misuseIsAnErrorThatNamesTheMember() throws {
        try withAccounts { runtime throws in
            try runtime.register("other") { Other() }
            for (source, message) in [
                ("a.blance", "an Account has no member 'blance' (did you mean 'balance'?)"),
                ("a[1]", "an Account has no member 1: its members have names"),
                ("(function() a.balance = 1 end)()", "'balance' of an Account cannot be assigned"),
                ("(function() a.limt = 1 end)()", "an Account has no member 'limt' (did you mean 'limit'?)"),
                ("(function() a.limit = 'x' end)()", "number expected, got string"),
                ("a.deposit(1)", "call 'deposit' with ':', as in object:deposit(...); what came before it is a number"),
                ("a.deposit()", "call 'deposit' with ':', as in object:deposit(...); what came before it is no value"),
                ("a:withdraw(100)", "too little"),
                ("a + 1", "bad argument #2 to 'add' (expected an Account, found 1)"),
                ("other().x", "an Other has no members: the host had not registered its class when it passed it"),
                ("(function() getmetatable(a).x = 1 end)()", "attempt to index a boolean value"),
            ] {
                let error = #expect(throws: LuaError.self) { try runtime.run("local a = Account.new(1); return \(source)") }
                #expect(error?.message.contains(message) == true, "\(error?.message ?? "") instead of \(message)")
            }
        }
    }

    @Test func aSubclassHasTheMembersOfItsSuperclass() throws {
        try withAccounts { runtime throws in
            let savings = Savings(4)
            #expect(try runtime.run("local a = ...; a:deposit(1); return a.balance", arguments: [.object(savings)]) == [5])
            try runtime.register("onlySavings") { (savings: Savings) in savings.balance.withLock { $0 } }
            #expect(try runtime.run("return onlySavings(...)", arguments: [.object(savings)]) == [5])
            let error = #expect(throws: LuaError.self) { try runtime.run("return onlySavings(Account.new())") }
            #expect(error?.message.contains("expected a Savings, found an Account") == true)
        }
    }

    @Test func scriptsKeepObjectsAliveAndNoLonger() throws {
        weak var kept: Account?
        try withAccounts { runtime throws in
            do {
                let account = Account(1)
                kept = account
                try runtime.setGlobal("account", to: .object(account))
            }
            #expect(kept != nil)
            try runtime.run("account = nil; for _ = 1, 3 do collectgarbage() end")
            #expect(kept == nil)
        }
    }

    @Test func closingReleasesTheClass() throws {
        final class Token: Sendable {}
        weak var token: Token?
        try withRuntime { runtime throws in
            let held = Token()
            token = held
            var other = LuaClass<Other>("Other")
            other.property("held", get: { _ in "\(held)" })
            try runtime.register(other)
        }
        #expect(token == nil)
    }

    @Test func whatEndsInSwiftIsNoMetamethod() async {
        await #expect(processExitsWith: .failure) {
            var account = LuaClass<Account>("Account")
            account.metamethod("__gc") { (_: Account) in 1 }
        }
    }
}
