#!/usr/bin/env bash
# Goal: the Slurm example runs as it stands: a job that serves texts, starts again what ended of it, and of which nothing is left after scancel.
# Method: a throw-away cluster of one node (munged, slurmctld, slurmd) in a temporary folder on free ports; sbatch, a text through the running
# job, another after kill -9 of a rank and of the drafter, scancel. Needs root, because slurmd does. Skipped (77) where Slurm is absent.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${OUTRIDER_BIN:-$root/build/release/bin}
models=$root/launch/models
export PATH=$PATH:/usr/sbin

for program in munged mungekey slurmctld slurmd sbatch mpirun; do
  command -v "$program" >/dev/null || { echo "skipped: there is no $program (apt-get install slurm-wlm munge)"; exit 77; }
done
[ "$(id -u)" -eq 0 ] || { echo "skipped: slurmd needs root"; exit 77; }

folder=$(mktemp -d)
chmod 755 "$folder"
daemons=()
job=

say() { printf '%s\n' "== $*"; }

clean_up() {
  local code=$?
  trap - EXIT
  [ -z "$job" ] || scancel --full "$job" 2>/dev/null || true
  if [ "$code" -ne 0 ]; then
    tail -n 30 "$folder"/*.log "$folder"/*.out 2>/dev/null || true
  fi
  for ((i = ${#daemons[@]} - 1; i >= 0; i--)); do
    kill "${daemons[i]}" 2>/dev/null || true
    wait "${daemons[i]}" 2>/dev/null || true
  done
  rm -rf "$folder"
  exit "$code"
}
trap clean_up EXIT

# within SECONDS WHAT COMMAND ...: poll until it succeeds.
within() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || { echo "not in time: $what"; return 1; }
    sleep 0.2
  done
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

start_munge() {
  # munged wants to be the only one who can write above its socket.
  mkdir -m 755 "$folder/munge"
  mungekey --create --keyfile "$folder/munge/key"
  munged --foreground --force --num-threads 2 --key-file "$folder/munge/key" --socket "$folder/munge/socket" \
    --pid-file "$folder/munge/pid" --seed-file "$folder/munge/seed" --log-file "$folder/munge.log" >"$folder/munged.log" 2>&1 &
  daemons+=($!)
  within 10 "munged" test -S "$folder/munge/socket"
}

write_configuration() {
  local host
  host=$(hostname -s)
  export SLURM_CONF=$folder/slurm.conf
  mkdir "$folder/state" "$folder/spool"
  cat >"$SLURM_CONF" <<END
ClusterName=throwaway
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1
ReturnToService=2
KillWait=10
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
}

start_slurm() {
  slurmctld -D -f "$SLURM_CONF" >"$folder/slurmctld.log" 2>&1 &
  daemons+=($!)
  slurmd -D -f "$SLURM_CONF" >"$folder/slurmd.log" 2>&1 &
  daemons+=($!)
  within 30 "a node that is idle" sh -c 'sinfo --noheader --format=%t 2>/dev/null | grep -q idle'
}

ended() { ! squeue --noheader --job "$job" 2>/dev/null | grep -q .; }
running() { [ "$(squeue --noheader --format=%T --job "$job")" = RUNNING ]; }
listens() { grep -qs "outrider listens at" "$folder/outrider-$job.out"; }
nobody_left() { ! pgrep -f -- "$endpoint" >/dev/null; }
verifiers() { pgrep -fc -- "outrider-verifier .*$endpoint" || true; }

say "a cluster of one node"
start_munge
write_configuration
start_slurm

say "sbatch"
port=$(free_port)
endpoint=tcp://127.0.0.1:$port
cd "$folder"
# More ranks than cores are right but slow; mpirun asks for a word of consent (RANKS are the example's 4 otherwise).
job=$(sbatch --parsable --ntasks="${RANKS:-4}" \
  --export="ALL,OUTRIDER_BIN=$bin,MODEL=$models/tales-6m-f16.gguf,DRAFT_MODEL=$models/tales-1m-f16.gguf,PORT=$port" \
  "$root/launch/ops/outrider.sbatch")
within 30 "a job that runs" running
within 30 "an endpoint" listens

words=(-p "Once upon a time" -n 32 --temp 0 --json --draft-policy fixed)
export OUTRIDER_MODELS=$models
plain=$("$bin/outrider" generate --plain "${words[@]}")

# The right text, and a drafter took part.
drafted_text() {
  local text
  text=$("$bin/outrider" generate --connect "$endpoint" "${words[@]}") || return 1
  python3 - "$text" "$plain" <<'END'
import json, sys
text, plain = map(json.loads, sys.argv[1:])
assert text["tokens"] == plain["tokens"], (text["text"], plain["text"])
sys.exit(text["target_calls"] >= len(plain["tokens"]))
END
}

say "a text through job $job"
drafted_text
say "right, and drafted; $(verifiers) verifier processes (mpirun is one of them)"

say "kill -9 of a rank and of the drafter"
kill -9 "$(pgrep -nf -- "outrider-verifier .*$endpoint")" "$(pgrep -nf -- "outrider-drafter .*$endpoint")"
within 30 "the word of both restarts" sh -c \
  "grep -q 'mpirun ended with.*again' outrider-$job.out && grep -q 'outrider-drafter ended with.*again' outrider-$job.out"
within 30 "a drafted text again" drafted_text

say "scancel"
scancel "$job"
within 30 "the job's end" ended
within 15 "the end of its processes" nobody_left
job=
say "passed after $SECONDS s"
