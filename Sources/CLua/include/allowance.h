// A number that several states use up together, such as the bytes that they may still print.
#ifndef CLUA_ALLOWANCE_H
#define CLUA_ALLOWANCE_H

#include <stdbool.h>
#include <stddef.h>

/// Any thread may call these functions. None raises. `allowance` may be NULL, which means no limit.
typedef struct clua_allowance clua_allowance;
clua_allowance *clua_allowance_new(long long limit);
void clua_allowance_free(clua_allowance *allowance);

/// Takes `count` off. Returns false if less was left; then nothing is left.
bool clua_allowance_spend(clua_allowance *allowance, size_t count);
bool clua_allowance_is_spent(const clua_allowance *allowance);
long long clua_allowance_limit(const clua_allowance *allowance);

/// Read the rest of an allowance, and make an allowance of `limit` with such a rest in a process that spends from the same allowance.
long long clua_allowance_left(const clua_allowance *allowance);
clua_allowance *clua_allowance_rest(long long left, long long limit);

#endif
