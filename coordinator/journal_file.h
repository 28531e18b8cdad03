// journal_file - a journal's database: made or found, ours alone, whole, and of the format that we know.
//
//     sessions ─┬─ number, token (a hash), owner, key, model, request, seed, arith_id, finish, expires
//               └─ tokens: session, round, ids            one row a commit
#pragma once

#include "common/base/status.h"

struct sqlite3;

// OR_ERR_IO as or_journal_open says. sqlite3_close closes it.
or_status_t or_journal_file_open(const char *path, struct sqlite3 **db_p);
