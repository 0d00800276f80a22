from joblib import Memory, Parallel, delayed

memory = Memory("cache", verbose=0)


@memory.cache
def primes_below(limit):
    print(f"counting below {limit}")
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(2, limit))


for limit, count in zip((100, 1000, 10000), Parallel(n_jobs=-1)(delayed(primes_below)(limit) for limit in (100, 1000, 10000))):
    print(limit, count)
