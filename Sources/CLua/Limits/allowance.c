#include "allowance.h"

#include <stdatomic.h>
#include <stdlib.h>

struct clua_allowance {
    atomic_llong left;  // negative after a request for more than was left
    long long limit;
};

clua_allowance *clua_allowance_new(long long limit) {
    clua_allowance *allowance = malloc(sizeof *allowance);
    if (allowance == NULL) return NULL;
    atomic_init(&allowance->left, limit);
    allowance->limit = limit;
    return allowance;
}

void clua_allowance_free(clua_allowance *allowance) { free(allowance); }

bool clua_allowance_spend(clua_allowance *allowance, size_t count) {
    return allowance == NULL || atomic_fetch_sub(&allowance->left, (long long)count) >= (long long)count;
}

bool clua_allowance_is_spent(const clua_allowance *allowance) { return allowance != NULL && atomic_load(&allowance->left) < 0; }

long long clua_allowance_limit(const clua_allowance *allowance) { return allowance->limit; }

long long clua_allowance_left(const clua_allowance *allowance) { return atomic_load(&allowance->left); }

clua_allowance *clua_allowance_rest(long long left, long long limit) {
    clua_allowance *allowance = clua_allowance_new(limit);
    if (allowance != NULL) atomic_store(&allowance->left, left);
    return allowance;
}
