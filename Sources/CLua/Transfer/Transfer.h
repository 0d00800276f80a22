// Transfer: Lua values on their way from one state to another, encoded into a parcel and decoded from it. Each state compiles the code of a
// function once. States share long strings and frozen values rather than copy them. JSON is here for its paths and
// frozen values. Transfer may use Core, Limits, Objects and Libraries.
#ifndef CLUA_TRANSFER_FOLDER_H
#define CLUA_TRANSFER_FOLDER_H

#include "Transfer/chunk.h"
#include "Transfer/code.h"
#include "Transfer/decoder_raising.h"
#include "Transfer/frozen.h"
#include "Transfer/identity_raising.h"
#include "Transfer/json_raising.h"
#include "Transfer/shared_string.h"
#include "Transfer/parcel_flat.h"
#include "Transfer/parcel_format.h"
#include "Transfer/parcel_raising.h"
#include "Transfer/parcel_writer.h"
#include "Transfer/pointer_map.h"
#include "freezing.h"
#include "parcel.h"

#endif
