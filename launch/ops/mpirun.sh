#!/usr/bin/env bash
# The verifier on several hosts: one MPI job, whose rank 0 connects to a coordinator that runs already. Start it on any host that reaches the
# others by ssh without a password; the same outrider-verifier and the same model file, under the same path, must be on each of them.
#
#     outrider-coordinator -m target.gguf --listen tcp://10.0.0.1:5577     on one host
#     HOSTS=hosts RANKS=8 ./mpirun.sh                                      on another, or the same
#     outrider-drafter -m draft.gguf --connect tcp://10.0.0.1:5577         where the drafts are made
#     outrider status --connect tcp://10.0.0.1:5577                        is everybody there?
#
# The connection to the coordinator is encrypted: OUTRIDER_KEYS (or ~/.config/outrider) of this user has the coordinator's key
# (outrider keys trust tcp://10.0.0.1:5577 'KEY') and ours, which the coordinator must let in as a verifier (outrider keys authorize 'KEY'
# --roles verifier; with client,drafter,verifier drafter and status may use the same key). What ranks exchange is not: their network must be private.
set -euo pipefail

model=${MODEL:-/srv/outrider/target.gguf}
coordinator=${COORDINATOR:-tcp://10.0.0.1:5577}
ranks=${RANKS:-8} # 1, 2, 4 or 8; with --pp P that times P

options=(
  -np "$ranks"
  # Ranks have threads. Open MPI pins a rank to one core (up to two ranks) or one socket unless told otherwise. Unpinned ranks part the host's CPUs
  # among them, along its memory nodes.
  --bind-to none
  # The variables that ranks read are set on the first host only; -x carries them to the others.
  -x "OUTRIDER_KEYS=${OUTRIDER_KEYS:-$HOME/.config/outrider}"
  -x "OUTRIDER_LOG_LEVEL=${OUTRIDER_LOG_LEVEL:-info}"
  # Every line of a log has its rank: [1,3]<stderr>: ...
  --tag-output
)
[ -z "${HOSTS:-}" ] || options+=(--hostfile "$HOSTS")
# Several networks: name the one between the ranks, or Open MPI tries them all, and may wait for one that leads nowhere.
[ -z "${NETWORK:-}" ] || options+=(--mca btl_tcp_if_include "$NETWORK" --mca oob_tcp_if_include "$NETWORK")
# More ranks than slots, as on a laptop: right but slow, and refused without this.
[ -z "${OVERSUBSCRIBE:-}" ] || options+=(--oversubscribe)
# Open MPI does not start as root unless asked twice; containers often have no other user.
[ "$(id -u)" -ne 0 ] || options+=(--allow-run-as-root)

# A rank that dies ends the whole job, and mpirun says which. This script does not start it again (the systemd unit and the Slurm example do);
# whoever does, within the coordinator's --verifier-timeout, sees the texts that were being written go on where they were.
exec mpirun "${options[@]}" "${VERIFIER:-outrider-verifier}" -m "$model" --connect "$coordinator" "$@"
