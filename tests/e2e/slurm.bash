# shellcheck shell=bash
# shellcheck disable=SC2154 # lib.sh has them
# A Slurm cluster of several nodes on this machine, as root. Sourced after lib.sh; stop_cluster
# before finish.

slurm=$tmp/slurm
need slurmctld slurmd sbatch munged
is_root || skip_all "a Slurm cluster of one's own needs root"

# free_ports N: the first of N free ports
free_ports() {
	python3 - "$1" <<'END'
import random, socket, sys
n = int(sys.argv[1])
while True:
    first = random.randrange(20000, 32000)
    try:
        for port in range(first, first + n):
            with socket.socket() as s:
                s.bind(("", port))
        break
    except OSError:
        pass
print(first)
END
}

start_node() { # N
	slurmd -N "n$1" >>"$slurm/log/n$1.out" 2>&1
}
node_pid() { cat "$slurm/n$1.pid" 2>/dev/null; } # N
# A node dies, with all processes of its jobs.
kill_node() { # N
	local env pid pids=()
	pids=("$(node_pid "$1")")
	for env in /proc/[0-9]*/environ; do
		grep -qsz "^SLURM_CONF=$SLURM_CONF\$" "$env" &&
			grep -qsz "^SLURMD_NODENAME=n$1\$" "$env" || continue
		pid=${env%/environ}
		pid=${pid#/proc/}
		pids+=("$pid")
		pid=$(ps -o ppid= -p "$pid" | tr -d ' ')
		[ "$(ps -o comm= -p "${pid:-0}")" != slurmstepd ] || pids+=("$pid")
	done
	kill -KILL "${pids[@]}" 2>/dev/null
}

# start_cluster NODES CPUS: stop_cluster follows, also if this fails
start_cluster() {
	local host first
	host=$(hostname)
	first=$(free_ports $(($1 + 1)))
	mkdir -p "$slurm/spool" "$slurm/state" "$slurm/log"
	head -c 1024 /dev/urandom >"$slurm/munge.key"
	chmod 400 "$slurm/munge.key"
	munged --force --socket="$slurm/munge.socket" --key-file="$slurm/munge.key" \
		--pid-file="$slurm/munged.pid" --log-file="$slurm/log/munged" \
		--seed-file="$slurm/munged.seed" 2>&1 | comment
	export SLURM_CONF=$slurm/slurm.conf
	# cred_expire: a job that is queued again waits for it.
	cat >"$SLURM_CONF" <<-CONF
		ClusterName=test
		SlurmctldHost=$host(127.0.0.1)
		SlurmctldPort=$first
		SlurmUser=root
		SlurmdUser=root
		AuthType=auth/munge
		AuthInfo=socket=$slurm/munge.socket,cred_expire=5
		CryptoType=crypto/munge
		StateSaveLocation=$slurm/state
		SlurmdSpoolDir=$slurm/spool/%n
		SlurmctldLogFile=$slurm/log/ctld
		SlurmdLogFile=$slurm/log/%n
		SlurmctldPidFile=$slurm/ctld.pid
		SlurmdPidFile=$slurm/%n.pid
		ProctrackType=proctrack/pgid
		TaskPlugin=task/affinity
		SelectType=select/cons_tres
		SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=100000
		ReturnToService=2
		SlurmdTimeout=10
		KillWait=10
		MpiDefault=none
		JobAcctGatherType=jobacct_gather/none
		NodeName=DEFAULT CPUs=$2 State=UNKNOWN
		NodeName=n[1-$1] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((first + 1))-$((first + $1))]
		PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
	CONF
	slurmctld >>"$slurm/log/ctld.out" 2>&1
	for ((i = 1; i <= $1; i++)); do start_node "$i"; done
	patience 60 nodes_idle "$1" && return
	tail -n 5 "$slurm"/log/* | comment
	return 1
}
nodes_idle() { [ "$(sinfo --noheader --Node --format=%T | grep -c '^idle$')" -ge "$1" ]; }
no_jobs() { [ -z "$(squeue --noheader)" ]; }

stop_cluster() {
	local f
	scancel --user=root 2>/dev/null
	patience 30 no_jobs
	for f in "$slurm"/*.pid; do
		[ ! -s "$f" ] || kill "$(cat "$f" 2>/dev/null)" 2>/dev/null
	done
	for f in "$slurm"/*.pid; do
		[ ! -s "$f" ] || patience 10 gone "$(cat "$f" 2>/dev/null)" ||
			kill -KILL "$(cat "$f" 2>/dev/null)" 2>/dev/null
	done
}
