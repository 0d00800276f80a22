// Limits: how running code is stopped. A body that exceeds its time or memory limit, or that is asked to end, is stopped. Ctrl-C interrupts
// a script. `pcall` and similar functions pass a stop on. A ledger counts what the host keeps for scripts. Limits may use Core.
#ifndef CLUA_LIMITS_FOLDER_H
#define CLUA_LIMITS_FOLDER_H

#include "Limits/command_list.h"
#include "Limits/count_raising.h"
#include "Limits/ledger_raising.h"
#include "Limits/stop_raising.h"
#include "allowance.h"
#include "interrupt.h"
#include "ledger.h"
#include "stop.h"

#endif
