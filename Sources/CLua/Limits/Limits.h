// Limits: how what runs is stopped. A body that takes too long, needs too much memory or is asked to end is stopped; Ctrl-C interrupts a
// script. `pcall` and its kin pass a stop on. Limits may use Core.
#ifndef CLUA_LIMITS_FOLDER_H
#define CLUA_LIMITS_FOLDER_H

#include "Limits/stop_raising.h"
#include "interrupt.h"
#include "stop.h"

#endif
