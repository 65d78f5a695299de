#include "tests/shim/runtime/runtime_user.h"
