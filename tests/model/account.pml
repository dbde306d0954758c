/* One account's way from a save to its publication, for Spin: every interleaving of a writer, the three stages, late
 * messages, workers that die, leases that run out, clients that hold a row or a lock, and somebody who repairs by hand.
 *
 * What is checked:
 *   one_holder   (assertion)  a leased run is changed under its own token alone
 *   complete     (assertion)  applied = g means that everything written up to g is shown
 *   forward      (assertion)  applied never goes back
 *   whole        (assertion)  nothing that is shown refers to a deleted session
 *   fresh        (assertion)  when nobody can go on, all that was requested is published, and it is what is stored
 *   settles      (ltl)        nobody goes round for ever, which Spin checks under weak fairness
 *
 * A transaction is atomic at its commit. Between its first lock and its commit the others run: what it has not
 * committed is not in the variables yet, and what it has locked names it as holder. A worker that dies gives its
 * locks back and leaves the rest as it was.
 *
 * Each guard that the product relies on can be taken out by a macro, and one of the above then fails:
 *   NO_FENCE, NO_TOKEN_CHECK, CLAIM_TAKES_FREE_ROWS_ONLY, CONTENTION_IS_FAILURE, NO_REFERENCE_CHECK
 * docs/locking.md says which inline stands for which function.
 */

#ifndef GENERATIONS
#define GENERATIONS     3   /* writes, each one generation and at most one job row */
#endif
#define JOBS            3
#define SESSIONS        2
#define ROLLBACKS       1   /* writers that hold the account's lock and then roll back */
#define HOLDS           1   /* clients that hold a job row for a while */
#define DEATHS          1   /* workers that die within a transaction */
#define EXPIRIES        1   /* leases that run out */
#define LATE_MESSAGES   1
#define MAX_ATTEMPTS    3
#define NOBODY          0
#define ME              (_pid + 1)
#define NO_ROW          JOBS

/* A job row's status, and the phase of the run in flight */
#define free        0
#define pending     1
#define processing  2
#define failed      3

#define none        0
#define claimed     1
#define computed    2

/* Generations: user_stats_refresh_state */
byte requested, applied;

/* The write lock of the account */
byte write_holder;

/* Canonical rows: the generation that wrote each session last; and the published ones: the generation they show */
byte stored[SESSIONS], shown[SESSIONS];
bool deleted[SESSIONS];

/* For the properties alone: which session each generation wrote */
byte session_of[GENERATIONS + 1];

typedef Job {
  byte status, target, scope, attempts, holder
};
Job job[JOBS];

typedef Run {
  byte phase;
  byte token, target, base, scope, attempts, holder;
  bool leased, waiting;
  byte output[SESSIONS];
  bool refers[SESSIONS]
};
Run current;                                                /* the account's run in flight */

byte deaths, holds, expiries, tokens;

#define bit_of(session)      (1 << (session))
#define is_free(row)         (job[row].holder == NOBODY)
#define is_open(row)         (job[row].status == pending || job[row].status == failed)
#define is_lockable(row)     (is_open(row) && is_free(row))
#define is_held(row)         (is_open(row) && !is_free(row))
#define is_due(row)          (job[row].status == pending && is_free(row))
#define some_row_is_due      (is_due(0) || is_due(1) || is_due(2))
#define some_row_is_held     (is_held(0) || is_held(1) || is_held(2))
#define in_flight            (current.phase != none)

/* ---- the run row ------------------------------------------------------------------------------------------- */

/* The fence's view of a change: the transaction declared this token, 0 for none. */
inline change_run(declared) {
  assert(!current.leased || declared == current.token)                                        /* one_holder */
}

inline end_run(declared) {
  change_run(declared);
  current.phase = none; current.leased = false; current.waiting = false;
  current.output[0] = 0; current.output[1] = 0; current.refers[0] = false; current.refers[1] = false
}

inline return_job(row, next) {
  if
  :: job[row].status == processing -> job[row].status = next
  :: else
  fi
}

inline fail_attempt(declared) {
  if
  :: current.attempts >= MAX_ATTEMPTS -> return_job(0, failed); return_job(1, failed); return_job(2, failed)
  :: else -> return_job(0, pending); return_job(1, pending); return_job(2, pending)
  fi;
  end_run(declared)
}

inline give_back(row) {
  if
  :: job[row].status == processing -> job[row].status = pending; job[row].attempts = current.attempts - 1
  :: else
  fi
}

inline give_back_attempt(declared) {
  give_back(0); give_back(1); give_back(2);
  end_run(declared)
}

/* ---- save and delete --------------------------------------------------------------------------------------- */

/* The unlocked pending row with the newest generation, else a new one. */
inline pick_row(row) {
  row = NO_ROW;
  i = 0;
  do
  :: i < JOBS ->
     if
     :: is_due(i) && (row == NO_ROW || job[i].target > job[row].target) -> row = i
     :: else
     fi;
     i++
  :: else -> break
  od;
  i = 0;
  do
  :: row == NO_ROW && job[i].status == free -> row = i; break
  :: row == NO_ROW && job[i].status != free -> i++
  :: row != NO_ROW -> break
  od;
  i = 0
}

active proctype writer() {
  byte session, row, i, rollbacks;
  bool deletes;
end:
  do
  :: requested < GENERATIONS ->
     atomic { write_holder == NOBODY -> write_holder = ME };                        /* lock_writes */
     atomic {
       if
       :: !deleted[0] -> session = 0
       :: !deleted[1] -> session = 1
       :: deleted[0] && deleted[1] -> session = SESSIONS
       fi;
       deletes = false;
       if
       :: session < SESSIONS && stored[session] > 0 -> deletes = true
       :: true
       fi;
       if
       :: session < SESSIONS ->
          pick_row(row);
          job[row].holder = ME                                                      /* merge_into_pending_job */
       :: else
       fi
     };
     if
     :: atomic { session == SESSIONS -> write_holder = NOBODY; session = 0; break }
     :: atomic {                                                                      /* commit */
          session < SESSIONS ->
          requested++;                                                                /* request_generation */
          stored[session] = requested;
          deleted[session] = deletes;
          session_of[requested] = session;
          if
          :: job[row].status == free -> job[row].scope = 0; job[row].attempts = 0
          :: else
          fi;
          job[row].status = pending;
          job[row].target = requested;
          job[row].scope = job[row].scope | bit_of(session);
          job[row].holder = NOBODY;
          write_holder = NOBODY;
          session = 0; row = 0; deletes = false
        }
     :: atomic {                                                                      /* rollback */
          session < SESSIONS && rollbacks < ROLLBACKS ->
          rollbacks++;
          job[row].holder = NOBODY;
          write_holder = NOBODY;
          session = 0; row = 0; deletes = false
        }
     fi
  :: break
  od
}

/* Somebody who selects an open job row for update, and lets go. */
active proctype client() {
  byte row;
end:
  do
  :: atomic {
       holds < HOLDS && (is_lockable(0) || is_lockable(1) || is_lockable(2)) ->
       if
       :: is_lockable(0) -> row = 0
       :: is_lockable(1) -> row = 1
       :: is_lockable(2) -> row = 2
       fi;
       holds++; job[row].holder = ME
     };
     atomic { job[row].holder = NOBODY; row = 0 }
  od
}

/* ---- claim ------------------------------------------------------------------------------------------------- */

#ifdef CLAIM_TAKES_FREE_ROWS_ONLY
#define may_claim  true
#else
#define may_claim  !some_row_is_held
#endif

inline take_row(row) {
  if
  :: is_lockable(row) -> job[row].holder = ME
  :: else
  fi
}

inline give_row(row) {
  if
  :: job[row].holder == ME -> job[row].holder = NOBODY
  :: else
  fi
}

inline absorb_row(row) {
  if
  :: job[row].holder == ME ->
     current.scope = current.scope | job[row].scope;
     if
     :: job[row].target > current.target -> current.target = job[row].target
     :: else
     fi;
     if
     :: job[row].status == pending && job[row].attempts >= current.attempts -> current.attempts = job[row].attempts + 1
     :: else
     fi;
     job[row].status = processing;
     job[row].holder = NOBODY
  :: else
  fi
}

inline count_attempt(row) {
  if
  :: job[row].status == processing -> job[row].attempts = current.attempts
  :: else
  fi
}

/* One process: the claim lock lets one claim work at a time. */
active proctype claimer() {
end:
  do
  :: atomic {                                                                         /* recover_one_expired_run */
       in_flight && !current.leased && !current.waiting && current.holder == NOBODY -> fail_attempt(current.token)
     }
  :: atomic {                                                                         /* readmit_one_run */
       in_flight && current.waiting && current.holder == NOBODY -> current.waiting = false; current.leased = true
     }
  :: atomic {                                                                         /* claim_account */
       !in_flight && some_row_is_due && may_claim -> take_row(0); take_row(1); take_row(2)
     };
     if
     :: atomic {                                                                      /* commit */
          current.target = 0; current.scope = 0; current.attempts = 1; current.base = applied;
          absorb_row(0); absorb_row(1); absorb_row(2);
          count_attempt(0); count_attempt(1); count_attempt(2);
          tokens++;
          current.token = tokens; current.phase = claimed; current.leased = true; current.waiting = false; current.holder = NOBODY
        }
     :: atomic { deaths < DEATHS -> deaths++; give_row(0); give_row(1); give_row(2) }
     fi
  od
}

/* ---- compute ----------------------------------------------------------------------------------------------- */

inline read_session(session) {
  if
  :: current.scope & bit_of(session) ->
     current.output[session] = stored[session];
     current.refers[session] = stored[session] > 0 && !deleted[session]
  :: else
  fi
}

/* The rest of a compute whose run row is locked. The rows are read in one statement, which may be long before the
 * commit: what it read goes to the outputs at once, and a worker that dies takes it back. */
inline compute_locked(declared) {
  atomic { read_session(0); read_session(1) };
  if
  :: atomic { change_run(declared); current.phase = computed; current.leased = true; current.holder = NOBODY }
  :: atomic {
       deaths < DEATHS ->
       deaths++;
       current.output[0] = 0; current.output[1] = 0; current.refers[0] = false; current.refers[1] = false;
       current.holder = NOBODY
     }
  fi
}

active proctype computer() {
end:
  do
  :: atomic {                                                                         /* take_run */
       current.phase == claimed && current.leased && !current.waiting && current.holder == NOBODY -> current.holder = ME
     };
     compute_locked(current.token)
  od
}

/* ---- publish ----------------------------------------------------------------------------------------------- */

#define lost_reference(session)  (current.refers[session] && deleted[session])
#ifdef NO_REFERENCE_CHECK
#define is_rejected  false
#else
#define is_rejected  (lost_reference(0) || lost_reference(1))
#endif

inline show_session(session) {
  if
  :: current.scope & bit_of(session) ->
     shown[session] = current.output[session];
     assert(!lost_reference(session))                                                 /* whole */
  :: else
  fi
}

inline complete_job(row) {
  if
  :: job[row].status == processing ->
     job[row].status = free; job[row].target = 0; job[row].scope = 0; job[row].attempts = 0
  :: else
  fi
}

inline check_complete() {
  i = 1;
  do
  :: i <= applied -> assert(shown[session_of[i]] >= i); i++                           /* complete */
  :: else -> break
  od;
  i = 0
}

/* The rest of a publication whose run row is locked. */
inline publish_locked(declared) {
  if
  :: atomic { write_holder == NOBODY -> write_holder = ME };                        /* lock_writes */
     if
     :: atomic {
          is_rejected ->                                                              /* rejection_of */
          give_back_attempt(declared);
          current.holder = NOBODY; write_holder = NOBODY
        }
     :: atomic {
          !is_rejected ->                                                             /* publish_run */
          assert(current.base == applied && current.target > applied);                        /* forward */
          show_session(0); show_session(1);
          applied = current.target;
          complete_job(0); complete_job(1); complete_job(2);
          check_complete();
          end_run(declared);
          current.holder = NOBODY; write_holder = NOBODY
        }
     :: atomic { deaths < DEATHS -> deaths++; current.holder = NOBODY; write_holder = NOBODY }
     fi
  :: atomic {                                                                         /* lock_timeout */
       write_holder != NOBODY ->
#ifdef CONTENTION_IS_FAILURE
       fail_attempt(declared);
#else
       change_run(declared); current.waiting = true;                                      /* busy */
#endif
       current.holder = NOBODY
     }
  fi
}

active proctype publisher() {
  byte i;
end:
  do
  :: atomic {                                                                         /* take_run */
       current.phase == computed && current.leased && !current.waiting && current.holder == NOBODY -> current.holder = ME
     };
     publish_locked(current.token)
  od
}

/* ---- what goes wrong ---------------------------------------------------------------------------------------- */

#ifdef NO_TOKEN_CHECK
#define is_mine(named)  (named > 0)
#else
#define is_mine(named)  (named == current.token)
#endif

/* A message that names a run and its token, delivered a second time or late, by then perhaps to another lease. */
active proctype late_message() {
  byte named, i, messages;
end:
  do
  :: atomic { messages < LATE_MESSAGES && in_flight -> messages++; named = current.token };
end_waits:
     if
     :: atomic { is_mine(named) && current.phase == claimed && current.leased && !current.waiting && current.holder == NOBODY
                 -> current.holder = ME };
        compute_locked(named)
     :: atomic { is_mine(named) && current.phase == computed && current.leased && !current.waiting && current.holder == NOBODY
                 -> current.holder = ME };
        publish_locked(named)
     fi;
     named = 0
  od
}

/* A lease runs out, also under a worker that still works: it holds the row, so nobody takes it away. */
active proctype clock() {
end:
  do
  :: atomic { expiries < EXPIRIES && in_flight && current.leased -> expiries++; current.leased = false }
  od
}

#ifdef NO_FENCE
#define fence_allows  true
#else
#define fence_allows  !current.leased
#endif

/* Somebody who ends a run by hand, without its token: the fence lets only an expired one go. */
active proctype script() {
end:
  atomic {
    in_flight && current.holder == NOBODY && fence_allows -> fail_attempt(0)
  }
}

#define is_fresh  (applied == requested && shown[0] == stored[0] && shown[1] == stored[1])

/* When nobody can go on any more, everything must be published. (Under fairness Spin does not look at runs that end,
 * so the formula below covers those alone that don't.) */
active proctype judge() {
end:
  timeout -> assert(is_fresh)                                                         /* fresh */
}

/* And nobody goes round for ever, each process taking its turn: the waits end when the holders do. */
ltl settles { <> [] is_fresh }
