// A layer below SQLite that fails, or kills the process, in the middle of a change of a file.
#ifndef CFAULTS_H
#define CFAULTS_H

#include <stdbool.h>

typedef enum fault {
    FAULT_NONE,
    FAULT_FULL,   // half of the bytes are written, and the disk is full; so it is from then on
    FAULT_ERROR,  // half of the bytes are written, and the disk has failed; so it is from then on
    FAULT_KILL,   // half of the bytes are written, and the process gets SIGKILL
    FAULT_CODE,   // nothing is written, and SQLite gets a code; so it is from then on
} fault;

/// Makes the layer the one that new connections use. May be called again.
void faults_install(void);

/// Lets change number `number`, counted from 0 and from now on, be that fault. Changes are writes, truncations, synchronizations and deletions.
void faults_plan(fault fault, long number);

/// Lets change number `number` give SQLite this code.
void faults_plan_code(int code, long number);

/// How many changes there were since `faults_plan`.
long faults_changes(void);

#endif
